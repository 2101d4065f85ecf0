package xds

import (
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
)

// state holds the values that a client's metrics report.
type state struct {
	connected          atomic.Bool // the server has responded on the open stream
	accepted, rejected atomic.Int64
	update             atomic.Pointer[update] // the last one that was accepted; nil if there was none
}

// update is a set of rules that the server sent.
type update struct {
	version string
	at      time.Time
}

func (s *state) accept(version string, now time.Time) {
	s.accepted.Add(1)
	s.update.Store(&update{version, now})
}

// MetricNames returns the names of the metrics of a client, as Prometheus has them.
func MetricNames() []string { return instrument.Names(table) }

// table lists the metrics of a client.
var table = []instrument.Row[*state]{
	{Name: "slidegate.envoy.xds.connected", Kind: instrument.Gauge,
		Help:  "1 while the stream to the management server is open and has had a response, otherwise 0.",
		Value: func(s *state) int64 { return instrument.OneIf(s.connected.Load()) }},
	{Name: "slidegate.envoy.xds.updates", Unit: "{update}", Help: "Sets of rules that the management server sent, by whether they were accepted or rejected.",
		Each: func(s *state, report instrument.Report) {
			report(float64(s.accepted.Load()), attribute.String("outcome", "accepted"))
			report(float64(s.rejected.Load()), attribute.String("outcome", "rejected"))
		}},
	{Name: "slidegate.envoy.xds.last_update", Unit: "s", Kind: instrument.Seconds, Help: "When rules were last accepted, in seconds since the Unix epoch; 0 if never.",
		Each: func(s *state, report instrument.Report) {
			if of := s.update.Load(); of != nil {
				report(float64(of.at.UnixMilli()) / 1000)
			} else {
				report(0)
			}
		}},
	{Name: "slidegate.envoy.xds.version", Kind: instrument.Gauge, Help: "1 for the version of the rules that were last accepted.",
		Each: func(s *state, report instrument.Report) {
			if of := s.update.Load(); of != nil {
				report(1, attribute.String("version", of.version))
			}
		}},
}
