package resp

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
)

// metrics holds all counts of a Server.
type metrics struct {
	authFailures atomic.Int64 // failed attempts to authenticate
	disconnects  [reasons]atomic.Int64
	failures     atomic.Int64 // error replies to commands
	strays       atomic.Int64 // error replies to input that is not a command

	mu    sync.Mutex
	maxOK int64 // largest value returned by Replies

	stop func() error // stops reporting
}

// table lists the metrics of a Server.
var table = []instrument.Row[*Server]{
	{Name: "slidegate.resp.commands", Unit: "{command}", Help: "Commands that were run, by name; unknown commands are not counted.",
		Each: func(s *Server, report instrument.Report) {
			for _, cmd := range s.sorted {
				report(float64(cmd.runs.Load()), attribute.String("command", cmd.name))
			}
		}},
	{Name: "slidegate.resp.disconnects", Unit: "{connection}", Help: "Connections that were closed, by reason.",
		Each: func(s *Server, report instrument.Report) {
			for i, name := range reasonNames {
				report(float64(s.metrics.disconnects[i].Load()), attribute.String("reason", name))
			}
		}},
	{Name: "slidegate.resp.auth_failures", Unit: "{attempt}", Help: "Attempts to authenticate with an invalid token.",
		Value: func(s *Server) int64 { return s.metrics.authFailures.Load() }},
}

// report begins to report the metrics, to the global provider if there is no other.
func (s *Server) report(provider metric.MeterProvider) (err error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	s.metrics.stop, err = instrument.Register(provider, table, func() *Server { return s })
	return err
}

// Replies returns how many commands succeeded, and how many error replies were sent.
func (s *Server) Replies() (ok, failed int64) {
	m := &s.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	failures := m.failures.Load()
	for _, cmd := range s.sorted {
		ok += cmd.runs.Load()
	}
	m.maxOK = max(m.maxOK, ok-failures) // the counts are not read atomically, and a counter never goes down
	return m.maxOK, failures + m.strays.Load()
}
