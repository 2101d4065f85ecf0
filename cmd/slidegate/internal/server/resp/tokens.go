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
	now := &tokenSums{sumsOf(clients), sumsOf(admins)}
	s.tokens.Store(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if said := c.token.Load(); said != nil && !slices.Contains(now.clients, *said) && !slices.Contains(now.admins, *said) {
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

// knows reports whether a token is valid. It compares all tokens in constant time.
func (s *Server) knows(token []byte) bool {
	given, found := sha256.Sum256(token), 0
	now := s.tokens.Load()
	for _, sums := range [][]sum{now.clients, now.admins} {
		for i := range sums {
			found |= subtle.ConstantTimeCompare(given[:], sums[i][:])
		}
	}
	if found == 0 {
		s.metrics.refused.Add(1)
	}
	return found == 1
}

// mayRun reports whether the client may run a command for operators: it has authenticated with an admin token, or there
// are none. Hashes are compared, so the time that takes reveals nothing.
func (c *conn) mayRun() bool {
	admins := c.server.tokens.Load().admins
	said := c.token.Load()
	return len(admins) == 0 || said != nil && slices.Contains(admins, *said)
}
