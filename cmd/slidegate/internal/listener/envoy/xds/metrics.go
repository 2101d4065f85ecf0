package xds

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// state holds the values that a client's metrics report.
type state struct {
	connected          atomic.Bool // the server has responded on the open stream
	accepted, rejected atomic.Int64

	mu      sync.Mutex
	version string
	last    time.Time // when rules were last accepted; zero if never
}

func (s *state) accept(version string, now time.Time) {
	s.accepted.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.last = version, now
}

// observe registers the metrics of the state.
func (s *state) observe(provider metric.MeterProvider) error {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter("github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy/xds")
	connected, err1 := meter.Int64ObservableGauge("slidegate.envoy.xds.connected",
		metric.WithDescription("1 while the stream to the management server is open and has had a response, otherwise 0."))
	updates, err2 := meter.Int64ObservableCounter("slidegate.envoy.xds.updates", metric.WithUnit("{update}"),
		metric.WithDescription("Sets of rules that the management server sent, by whether they were accepted or rejected."))
	last, err3 := meter.Float64ObservableGauge("slidegate.envoy.xds.last_update", metric.WithUnit("s"),
		metric.WithDescription("When rules were last accepted, in seconds since the Unix epoch; 0 if never."))
	version, err4 := meter.Int64ObservableGauge("slidegate.envoy.xds.version",
		metric.WithDescription("1 for the version of the rules that were last accepted."))
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return fmt.Errorf("xds: MeterProvider: %w", err)
		}
	}
	outcome := func(name string) metric.ObserveOption {
		return metric.WithAttributes(attribute.String("outcome", name))
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		up := int64(0)
		if s.connected.Load() {
			up = 1
		}
		o.ObserveInt64(connected, up)
		o.ObserveInt64(updates, s.accepted.Load(), outcome("accepted"))
		o.ObserveInt64(updates, s.rejected.Load(), outcome("rejected"))
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.last.IsZero() {
			o.ObserveFloat64(last, 0)
			return nil
		}
		o.ObserveFloat64(last, float64(s.last.UnixMilli())/1000)
		o.ObserveInt64(version, 1, metric.WithAttributes(attribute.String("version", s.version)))
		return nil
	}, connected, updates, last, version)
	return err
}
