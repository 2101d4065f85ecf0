package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/latency"
)

// telemetry exports metrics and traces: metrics on /metrics, and both to a collector if one is configured.
type telemetry struct {
	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	traces   *trace.TracerProvider // nil if traces are not sent
	otlp     bool                  // whether anything is sent to a collector
	latency  *latency.Histograms
}

func newTelemetry(ctx context.Context, opts *Options) (*telemetry, error) {
	t := &telemetry{registry: prometheus.NewRegistry(), latency: latency.New()}
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(t.registry), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithProducer(t.latency))
	if err != nil {
		return nil, fmt.Errorf("server: metrics: %w", err)
	}
	readers := []sdkmetric.Option{sdkmetric.WithReader(exporter)}
	res := resource.NewSchemaless(attribute.String("service.name", "slidegate"), attribute.String("service.version", opts.Version))
	if opts.OTLP {
		if from, err := resource.New(ctx, resource.WithFromEnv()); err == nil {
			res, _ = resource.Merge(res, from) // neither has a schema, so they cannot conflict
		}
		reader, err := t.send(ctx, res)
		if err != nil {
			return nil, err
		}
		readers = append(readers, reader...)
	}
	t.meters = sdkmetric.NewMeterProvider(append(readers, sdkmetric.WithResource(res),
		sdkmetric.WithCardinalityLimit(0))...) // every metric bounds its own series; 250 policies already have 2,000
	return t, nil
}

// send creates the exporters of metrics and traces to a collector, as the environment variables configure them.
func (t *telemetry) send(ctx context.Context, res *resource.Resource) (readers []sdkmetric.Option, err error) {
	sendMetrics, metricsErr := metricSignal.enabled()
	sendTraces, tracesErr := traceSignal.enabled()
	if err := cmp.Or(metricsErr, tracesErr); err != nil {
		return nil, err
	}
	t.otlp = sendMetrics || sendTraces
	if sendMetrics {
		metrics, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, invalid("OTLP", "%w", err)
		}
		readers = append(readers, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics, sdkmetric.WithProducer(t.latency))))
	}
	if sendTraces {
		traces, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, invalid("OTLP", "%w", err)
		}
		t.traces = trace.NewTracerProvider(trace.WithBatcher(redactingExporter{traces}), trace.WithResource(res))
	}
	return readers, nil
}

// page returns the handler of /metrics.
func (t *telemetry) page() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{})
}

// traced creates spans for requests, if traces are sent. HTTP metrics are omitted: the decisions are counted already.
func (t *telemetry) traced(next http.Handler) http.Handler {
	if t.traces == nil {
		return next
	}
	return otelhttp.NewHandler(next, "slidegate", otelhttp.WithTracerProvider(t.traces), otelhttp.WithMeterProvider(noop.NewMeterProvider()))
}

// tracedGRPC returns the options that create spans for gRPC requests, if traces are sent.
func (t *telemetry) tracedGRPC() []grpc.ServerOption {
	if t.traces == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.traces), otelgrpc.WithMeterProvider(noop.NewMeterProvider())))}
}

// watchListeners reports how many connections each listener holds, and how many it closed because there were too many.
func (t *telemetry) watchListeners(listeners []*listener) error {
	meter := t.meters.Meter(scope)
	open, err := meter.Int64ObservableGauge("slidegate.connections", metric.WithUnit("{connection}"),
		metric.WithDescription("Open connections of a listener."))
	if err != nil {
		return err
	}
	refused, err := meter.Int64ObservableCounter("slidegate.connections.refused", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections closed immediately because the listener was at its limit."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, ln := range listeners {
			name := metric.WithAttributes(attribute.String("listener", ln.name))
			o.ObserveInt64(open, ln.conns.Open(), name)
			o.ObserveInt64(refused, ln.conns.Refused(), name)
		}
		return nil
	}, open, refused)
	return err
}

// flushTimeout is how long shutdown waits for a collector. A collector that is down must not delay shutdown further.
const flushTimeout = time.Second

// flush sends the metrics to the collector, if there is one. It must run before the observed components are closed, since their
// metrics end with them.
func (t *telemetry) flush() {
	if !t.otlp {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	_ = t.meters.ForceFlush(ctx) // close reports an unreachable collector
}

// close sends the remaining metrics and traces.
func (t *telemetry) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if t.traces == nil {
		return t.meters.Shutdown(ctx)
	}
	traced := make(chan error, 1)
	go func() { traced <- t.traces.Shutdown(ctx) }() // concurrently: both have the same deadline
	return errors.Join(t.meters.Shutdown(ctx), <-traced)
}
