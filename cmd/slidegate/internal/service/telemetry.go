package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
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
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// telemetry exports metrics and traces: metrics on /metrics, and both to a collector if one is configured.
type telemetry struct {
	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	traces   *trace.TracerProvider // nil if traces are not sent
	otlp     bool                  // whether anything is sent to a collector
	latency  *gate.Latency
}

func newTelemetry(ctx context.Context, opts *Options) (*telemetry, error) {
	t := &telemetry{registry: prometheus.NewRegistry(), latency: gate.NewLatency()}
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(t.registry), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithProducer(t.latency))
	if err != nil {
		return nil, fmt.Errorf("service: metrics: %w", err)
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

// signal is a kind of telemetry that is sent to a collector, metrics or traces. It names the environment variables of OpenTelemetry.
type signal struct{ exporter, endpoint, protocol string }

// The signals, with the variables that are specific to each.
var (
	metricSignal = signal{"OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"}
	traceSignal  = signal{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"}
)

// The variables that apply to both.
const (
	anyEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	anyProtocol = "OTEL_EXPORTER_OTLP_PROTOCOL"
)

// enabled reports whether a signal is to be sent. It returns an error if the signal cannot be sent as the variables demand. Without
// this check, the exporter would send HTTP to a gRPC port, or to a collector on this machine that was never configured, and fail only
// later.
func (s signal) enabled() (bool, error) {
	switch name := os.Getenv(s.exporter); strings.ToLower(strings.TrimSpace(name)) {
	case "", "otlp":
	case "none":
		return false, nil
	default:
		return false, invalid("OTLP", "%s: %q is not supported; use otlp or none", s.exporter, name)
	}
	for _, variable := range []string{s.protocol, anyProtocol} {
		protocol := strings.ToLower(strings.TrimSpace(os.Getenv(variable)))
		if protocol == "http/protobuf" {
			break // the signal's own variable takes precedence
		}
		if protocol != "" {
			return false, invalid("OTLP", "%s: %q is not supported; use http/protobuf, and the collector's port for HTTP, which is usually 4318", variable, protocol)
		}
	}
	if strings.TrimSpace(os.Getenv(s.endpoint)) == "" && strings.TrimSpace(os.Getenv(anyEndpoint)) == "" {
		return false, invalid("OTLP", "%s is not set, nor is %s; name the collector, such as http://localhost:4318, or set %s to none",
			anyEndpoint, s.endpoint, s.exporter)
	}
	return true, nil
}

// announceTimeout is how long announce waits for the collector, in the background.
const announceTimeout = 5 * time.Second

// announce sends the metrics for the first time, so that an unreachable collector is logged at the start.
func (t *telemetry) announce(ctx context.Context, log *slog.Logger) {
	if !t.otlp {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	if err := t.meters.ForceFlush(ctx); err != nil && ctx.Err() != context.Canceled {
		log.Warn("the collector cannot be reached; metrics and traces are lost until it is back", slog.Any("error", err))
	}
}

// redactingExporter is a span exporter that removes everything that could identify a client: its address and user agent, and the
// host and path it requested, which keys are made of.
type redactingExporter struct{ trace.SpanExporter }

// ExportSpans exports the spans with only the safe attributes.
func (e redactingExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	redacted := make([]trace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		redacted[i] = redactedSpan{span}
	}
	return e.SpanExporter.ExportSpans(ctx, redacted)
}

// safeAttributes lists the attributes that have a bounded set of values and identify no client.
var safeAttributes = map[attribute.Key]bool{
	"http.request.method": true, "http.response.status_code": true, "http.route": true, "url.scheme": true,
	"network.protocol.name": true, "network.protocol.version": true, "error.type": true,
	"rpc.system": true, "rpc.system.name": true, "rpc.service": true, "rpc.method": true,
	"rpc.grpc.status_code": true, "rpc.response.status_code": true,
}

// redactedSpan is a span with only the safe attributes.
type redactedSpan struct{ trace.ReadOnlySpan }

// Attributes returns the safe attributes.
func (s redactedSpan) Attributes() []attribute.KeyValue {
	var all []attribute.KeyValue
	for _, a := range s.ReadOnlySpan.Attributes() {
		if safeAttributes[a.Key] {
			all = append(all, a)
		}
	}
	return all
}
