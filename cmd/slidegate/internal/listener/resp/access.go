package resp

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
)

// sum is the stored hash of a token.
type sum = [sha256.Size]byte

// tokenSums holds the hashes of the current tokens.
type tokenSums struct{ clients, admins []sum }

// SetTokens replaces Options.Tokens and Options.AdminTokens. Clients that authenticated with a token that is no longer
// valid are disconnected. Whether tokens of either kind are required is fixed when the server is made: they cannot all
// be removed, and none can be added to a server without tokens.
func (s *Server) SetTokens(clients, admins []string) {
	current := &tokenSums{sumsOf(clients), sumsOf(admins)}
	s.tokens.Store(current)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if hash := c.token.Load(); hash != nil && !slices.Contains(current.clients, *hash) && !slices.Contains(current.admins, *hash) {
			_ = c.client.Close()
		}
	}
}

func sumsOf(tokens []string) []sum {
	sums := make([]sum, len(tokens))
	for i, token := range tokens {
		sums[i] = sha256.Sum256([]byte(token))
	}
	return sums
}

// needsToken reports whether clients must authenticate.
func (s *Server) needsToken() bool { return len(s.tokens.Load().clients) > 0 }

// hasTokens reports whether there are any tokens.
func (s *Server) hasTokens() bool { return s.needsToken() || len(s.tokens.Load().admins) > 0 }

// isValidToken reports whether a token is valid. It compares all tokens in constant time.
func (s *Server) isValidToken(token []byte) bool {
	given, found := sha256.Sum256(token), 0
	current := s.tokens.Load()
	for _, sums := range [][]sum{current.clients, current.admins} {
		for i := range sums {
			found |= subtle.ConstantTimeCompare(given[:], sums[i][:])
		}
	}
	if found == 0 {
		s.metrics.authFailures.Add(1)
	}
	return found == 1
}

// isOperator reports whether the client may run a command for operators: it has authenticated with an admin token, or there
// are none. Hashes are compared, so the time that takes reveals nothing.
func (c *conn) isOperator() bool {
	admins := c.server.tokens.Load().admins
	hash := c.token.Load()
	return len(admins) == 0 || hash != nil && slices.Contains(admins, *hash)
}

// Clients that have not authenticated yet are guests. Guests may use only a part of the connections, so that clients
// without a token cannot take all of them. When that part is full, the oldest guest is disconnected to make room for
// the next one, so that such clients cannot hold that part either: a client that authenticates on connecting, as all
// clients do, is done before it is the oldest.

// addGuestLocked records that a client is not authenticated, and disconnects the oldest guest if there are too many.
func (s *Server) addGuestLocked(c *conn) {
	if s.guests.Len() >= s.opts.MaxGuests {
		oldest := s.guests.Front().Value.(*conn)
		s.removeGuestLocked(oldest)
		oldest.evicted.Store(true)
		oldest.wake()
	}
	c.guest = s.guests.PushBack(c)
}

// removeGuestLocked removes a client from the list of guests, if it is in the list.
func (s *Server) removeGuestLocked(c *conn) {
	if c.guest != nil {
		s.guests.Remove(c.guest)
		c.guest = nil
	}
}
