package resp

// Clients that have not said the token yet are guests. They have a part of the room, so that strangers who say nothing cannot
// take all of it, and the oldest of them makes room for the next, so that they cannot take all of that part either: a client
// that says the token when it connects, as all do, is in before it is the oldest.

// guestShare is which part of MaxConnections guests may take: a quarter.
const guestShare = 4

// roomLocked makes room for another client, and reports whether there is any. Where no token is wanted there are no guests.
func (s *Server) roomLocked() bool {
	full := len(s.conns)-s.evicted >= s.opts.MaxConnections
	if full || s.guests.Len() >= max(1, s.opts.MaxConnections/guestShare) {
		return s.evictLocked()
	}
	return true
}

// evictLocked has the guest go that has been there longest, and reports whether there is one.
func (s *Server) evictLocked() bool {
	oldest := s.guests.Front()
	if oldest == nil {
		return false
	}
	c := oldest.Value.(*conn)
	s.forgetGuestLocked(c)
	s.evicted++
	c.evicted.Store(true)
	c.wake()
	return true
}

// forgetGuestLocked takes a client off the list of guests, if it is on it.
func (s *Server) forgetGuestLocked(c *conn) {
	if c.guest != nil {
		s.guests.Remove(c.guest)
		c.guest = nil
	}
}

// admitted is told of a client that has said the token.
func (s *Server) admitted(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetGuestLocked(c)
}

// unadmitted is told of a client that has taken it back.
func (s *Server) unadmitted(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.evicted.Load() {
		c.guest = s.guests.PushBack(c)
	}
}
