package resp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// scope is the name under which all metrics are reported.
const scope = "github.com/slidegate/slidegate/cmd/slidegate/internal/server/resp"

// metrics holds all counts of a Server.
type metrics struct {
	rejected     atomic.Int64
	authFailures atomic.Int64 // failed attempts to authenticate
	disconnects  [reasons]atomic.Int64
	failures     atomic.Int64 // error replies to commands
	strays       atomic.Int64 // error replies to input that is not a command

	mu    sync.Mutex
	maxOK int64 // largest value returned by Replies

	commands     []*command
	connected    func() int
	registration metric.Registration
	counters     struct{ commands, disconnects, rejected, authFailures metric.Int64ObservableCounter }
	connections  metric.Int64ObservableGauge
	reasonOf     [reasons]metric.MeasurementOption
}

func newMetrics(provider metric.MeterProvider, commands []*command, connected func() int) (*metrics, error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter(scope)
	m := &metrics{commands: commands, connected: connected}
	for i, name := range reasonNames {
		m.reasonOf[i] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", name)))
	}
	for _, cmd := range commands {
		cmd.measured = metric.WithAttributeSet(attribute.NewSet(attribute.String("command", cmd.name)))
	}
	var errs [6]error
	m.counters.commands, errs[0] = meter.Int64ObservableCounter("slidegate.resp.commands", metric.WithUnit("{command}"),
		metric.WithDescription("Commands that were run, by name; unknown commands are not counted."))
	m.counters.disconnects, errs[1] = meter.Int64ObservableCounter("slidegate.resp.disconnects", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections that were closed, by reason."))
	m.counters.rejected, errs[2] = meter.Int64ObservableCounter("slidegate.resp.sent_away", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections that were rejected because there were too many."))
	m.counters.authFailures, errs[3] = meter.Int64ObservableCounter("slidegate.resp.auth_failures", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts to authenticate with an invalid token."))
	m.connections, errs[4] = meter.Int64ObservableGauge("slidegate.resp.connections", metric.WithUnit("{connection}"),
		metric.WithDescription("Connected clients."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("resp: MeterProvider: %w", err)
	}
	var err error
	m.registration, err = meter.RegisterCallback(m.observe,
		m.counters.commands, m.counters.disconnects, m.counters.rejected, m.counters.authFailures, m.connections)
	if err != nil {
		return nil, fmt.Errorf("resp: MeterProvider: %w", err)
	}
	return m, nil
}

func (m *metrics) observe(_ context.Context, to metric.Observer) error {
	for _, cmd := range m.commands {
		to.ObserveInt64(m.counters.commands, cmd.runs.Load(), cmd.measured)
	}
	for i := range m.disconnects {
		to.ObserveInt64(m.counters.disconnects, m.disconnects[i].Load(), m.reasonOf[i])
	}
	to.ObserveInt64(m.counters.rejected, m.rejected.Load())
	to.ObserveInt64(m.counters.authFailures, m.authFailures.Load())
	to.ObserveInt64(m.connections, int64(m.connected()))
	return nil
}

// Replies returns how many commands succeeded, and how many error replies were sent.
func (s *Server) Replies() (ok, failed int64) {
	m := s.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	failures := m.failures.Load()
	for _, cmd := range m.commands {
		ok += cmd.runs.Load()
	}
	m.maxOK = max(m.maxOK, ok-failures) // the counts are not read atomically, and a counter never goes down
	return m.maxOK, failures + m.strays.Load()
}

func (m *metrics) close() error {
	if err := m.registration.Unregister(); err != nil {
		return fmt.Errorf("resp: MeterProvider: %w", err)
	}
	return nil
}
