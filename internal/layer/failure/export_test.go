package failure

// Mark returns the mark of what Local counts.
func (s *Store) Mark() int { return s.mark }
