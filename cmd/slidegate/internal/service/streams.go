package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// allowedEvery is how often the token of an open stream is checked again.
const allowedEvery = time.Second

var errNotAllowed = errors.New("the token is no longer valid")

// whileAllowed serves a stream of server-sent events to operators for as long as the token of the request is one: a token that was removed
// must not read on. The last event says why it ends.
func (s *Server) whileAllowed(stream http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		accepted := s.operators()
		if accepted.empty() {
			stream(w, r)
			return
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		go func() {
			sum := sha256.Sum256([]byte(tokenOf(r)))
			tick := time.NewTicker(allowedEvery)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if _, ok := accepted.owner(sum); !ok {
					cancel(errNotAllowed)
					return
				}
			}
		}()
		stream(w, r.WithContext(ctx))
		if errors.Is(context.Cause(ctx), errNotAllowed) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(streamTimeout))
			_, _ = fmt.Fprintf(w, "event: problem\ndata: {\"status\":%d,\"detail\":%q}\n\n", http.StatusUnauthorized, errNotAllowed.Error())
		}
	}
}
