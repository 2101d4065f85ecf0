package server

import (
	"time"

	"github.com/slidegate/slidegate/config"
)

// SetTimeouts sets the times that a client may take for a request's header, for all of the request, for the answer, and
// between requests, which are too long to wait for.
func (o *Options) SetTimeouts(header, request, answer, idle time.Duration) {
	o.timeouts = timeouts{header: header, request: request, answer: answer, idle: idle}
}

// File returns what New was given.
func (s *Server) File() *config.File { return s.opts.File }

// Path returns where the file of policies is.
func (s *Server) Path() string { return s.opts.Paths[0] }

// Connections returns how many connections a listener holds, and how many it has refused.
func (s *Server) Connections(listener string) (open, refused int64) {
	for _, d := range s.doors {
		if d.name == listener {
			return d.listener.Open(), d.listener.Refused()
		}
	}
	return 0, 0
}
