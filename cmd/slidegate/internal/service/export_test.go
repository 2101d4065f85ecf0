package service

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/config"
)

// SetTimeouts sets how long a client may take for a request's header, for the whole request, for the response, and between
// requests. The defaults are too long for tests.
func (o *Options) SetTimeouts(header, request, answer, idle time.Duration) {
	o.timeouts = timeouts{header: header, request: request, response: answer, idle: idle}
}

// File returns the file given to New.
func (s *Server) File() *config.File { return s.opts.File }

// Path returns the path of the policy file.
func (s *Server) Path() string { return s.opts.Paths[0] }

// Connections returns how many connections a listener holds, and how many it has refused.
func (s *Server) Connections(listener string) (open, refused int64) {
	for _, d := range s.listeners {
		if d.name == listener {
			return d.conns.Open(), d.conns.Refused()
		}
	}
	return 0, 0
}

// GlanceEvery is the shortest time between two documents that requests make.
const GlanceEvery = glanceEvery

// Glance returns what a stream sends now, with n keys in each list, and a channel that is closed after the turn of the exchange.
func (s *Server) Glance(t *testing.T, n int) (turned <-chan struct{}, text []byte) {
	t.Helper()
	turned = s.exchange.Turned()
	text, err := s.glanceAt(t.Context(), n, false)
	if err != nil {
		t.Fatal(err)
	}
	return turned, text
}
