package server

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"
)

// signal is what is sent to a collector: metrics or traces. The variables are those of OpenTelemetry.
type signal struct{ exporter, endpoint, protocol string }

// The signals, by the variables that are for one of them.
var (
	metricSignal = signal{"OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"}
	traceSignal  = signal{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"}
)

// The variables that are for both.
const (
	anyEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	anyProtocol = "OTEL_EXPORTER_OTLP_PROTOCOL"
)

// wanted reports whether a signal is to be sent, and an error if it cannot be sent as the variables say: the exporter would send HTTP
// to a port for gRPC, or to a collector on this machine that nobody has named, and fail only later.
func (s signal) wanted() (bool, error) {
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
			break // the one for this signal counts
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

// firstWords is how long the start waits in the background for a collector.
const firstWords = 5 * time.Second

// announce sends the metrics for the first time, so that a collector which cannot be reached is told at the start.
func (t *telemetry) announce(ctx context.Context, log *slog.Logger) {
	if !t.otlp {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstWords)
	defer cancel()
	if err := t.meters.ForceFlush(ctx); err != nil && ctx.Err() != context.Canceled {
		log.Warn("the collector cannot be reached; metrics and traces are lost until it can be", slog.Any("error", err))
	}
}
