package resp

// Clients that have not authenticated yet are guests. Guests may use only a part of the connections, so that clients
// without a token cannot take all of them. When that part is full, the oldest guest is disconnected to make room for
// the next one, so that such clients cannot hold that part either: a client that authenticates on connecting, as all
// clients do, is done before it is the oldest.

// guestShare is the part of MaxConnections that guests may use: a quarter.
const guestShare = 4

// roomLocked makes room for another client, and reports whether there is any. Without tokens there are no guests.
func (s *Server) roomLocked() bool {
	full := len(s.conns)-s.evicted >= s.opts.MaxConnections
	if full || s.guests.Len() >= max(1, s.opts.MaxConnections/guestShare) {
		return s.evictLocked()
	}
	return true
}

// evictLocked disconnects the oldest guest, and reports whether there is one.
func (s *Server) evictLocked() bool {
	oldest := s.guests.Front()
	if oldest == nil {
		return false
	}
	c := oldest.Value.(*conn)
	s.removeGuestLocked(c)
	s.evicted++
	c.evicted.Store(true)
	c.wake()
	return true
}

// removeGuestLocked removes a client from the list of guests, if it is in the list.
func (s *Server) removeGuestLocked(c *conn) {
	if c.guest != nil {
		s.guests.Remove(c.guest)
		c.guest = nil
	}
}

// removeGuest records that a client has authenticated.
func (s *Server) removeGuest(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeGuestLocked(c)
}

// addGuest records that a client is no longer authenticated.
func (s *Server) addGuest(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.evicted.Load() {
		c.guest = s.guests.PushBack(c)
	}
}
