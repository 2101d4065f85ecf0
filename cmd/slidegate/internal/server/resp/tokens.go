package resp

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
)

// sum is what is kept of a token.
type sum = [sha256.Size]byte

// tokenSums are the tokens of a moment.
type tokenSums struct{ clients, admins []sum }

// SetTokens replaces Options.Tokens and Options.AdminTokens. Clients that were let in with a token that is no longer there are disconnected.
// Whether tokens of either kind are needed at all is decided when the server is made: they cannot all be taken away, and none can be given
// to a server without.
func (s *Server) SetTokens(clients, admins []string) {
	now := &tokenSums{sumsOf(clients), sumsOf(admins)}
	s.tokens.Store(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if said := c.said.Load(); said != nil && !slices.Contains(now.clients, *said) && !slices.Contains(now.admins, *said) {
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

// needsToken reports whether clients must show a token.
func (s *Server) needsToken() bool { return len(s.tokens.Load().clients) > 0 }

// hasTokens reports whether there is any token to show.
func (s *Server) hasTokens() bool { return s.needsToken() || len(s.tokens.Load().admins) > 0 }

// knows reports whether a token is one of the server's. All are compared, in the same time whatever they are.
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

// mayRun reports whether the client may run a command that is for operators: if it has said an admin token, or there are none. What it
// said is compared by its sum, as it was when it said it, and so tells nothing by the time that takes.
func (c *conn) mayRun() bool {
	admins := c.server.tokens.Load().admins
	said := c.said.Load()
	return len(admins) == 0 || said != nil && slices.Contains(admins, *said)
}
