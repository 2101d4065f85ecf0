package main

import (
	"strings"
	"syscall"
	"testing"
)

// Unsupported values of the OpenTelemetry variables are errors at the start that name the variable.
func TestCollectorVariables(t *testing.T) {
	const endpoint, serve = "OTEL_EXPORTER_OTLP_ENDPOINT", "serve --http 127.0.0.1:0 --grpc off --resp off --admin off --otlp"
	for _, test := range []struct {
		set  map[string]string
		want string
	}{
		{nil, endpoint},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1/v1/metrics"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"},
		{map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "GRPC "}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"},
		{map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"},
		{map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_METRICS_EXPORTER": "prometheus"}, "OTEL_METRICS_EXPORTER"},
	} {
		for _, name := range []string{
			endpoint, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER",
			"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
		} {
			t.Setenv(name, test.set[name])
		}
		if r := callBriefly(t, strings.Fields(serve)...); r.status != exitFailure || !strings.HasPrefix(r.err, "slidegate: --otlp: ") || !strings.Contains(r.err, test.want) {
			t.Errorf("%v: got status %d and\n%swant an error about %s", test.set, r.status, r.err, test.want)
		}
	}
}

// An unreachable collector is logged, but does not end the service; metrics can be sent without traces.
func TestUnreachableCollectorIsLogged(t *testing.T) {
	s := startServeWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, "--otlp")
	if !s.await("the collector cannot be reached") {
		t.Errorf("the service ended:\n%s", s.text())
	}
	s.mustEnd(syscall.SIGTERM)

	c := newCollector(t)
	s = startServeWith(t, []string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=" + c.URL + "/v1/metrics", "OTEL_TRACES_EXPORTER=none"}, "--otlp")
	s.allow("me")
	s.mustEnd(syscall.SIGTERM)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent["POST /v1/metrics"]) == 0 || len(c.sent) != 1 || s.printed("cannot be reached") || s.printed("not sent") {
		t.Errorf("got %d kinds of telemetry, want only metrics:\n%s", len(c.sent), s.text())
	}
}
