package failure

// Mark returns the mark of what Local counts; the next one is that of the account of FailOptimistic.
func (s *Store) Mark() int { return s.mark }
