package resp

// Connected returns the number of clients.
func (s *Server) Connected() int { return s.connected() }
