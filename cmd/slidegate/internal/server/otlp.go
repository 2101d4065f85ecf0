package server

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"
)

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
