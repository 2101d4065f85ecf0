package resp

import (
	"crypto/sha256"
	"slices"
)

// SetTokens replaces Options.Tokens. Clients that were let in with a token that is no longer there are disconnected. Whether a token is
// needed at all is decided when the server is made: tokens cannot all be taken away, and none can be given to a server without.
func (s *Server) SetTokens(tokens []string) {
	sums := make([][sha256.Size]byte, len(tokens))
	for i, token := range tokens {
		sums[i] = sha256.Sum256([]byte(token))
	}
	s.tokens.Store(&sums)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if said := c.said.Load(); said != nil && !slices.Contains(sums, *said) {
			_ = c.client.Close()
		}
	}
}

// needsToken reports whether clients must show a token.
func (s *Server) needsToken() bool { return len(*s.tokens.Load()) > 0 }
