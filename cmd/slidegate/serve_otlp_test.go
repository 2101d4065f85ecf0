package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestCollectorVariables: what cannot be sent as the variables say is an error at the start, which names the variable.
func TestCollectorVariables(t *testing.T) {
	const endpoint, serve = "OTEL_EXPORTER_OTLP_ENDPOINT", "serve --http 127.0.0.1:0 --grpc off --resp off --admin off --otlp"
	for _, test := range []struct {
		set  map[string]string
		says string
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
		if r := callBriefly(t, strings.Fields(serve)...); r.status != exitFailure || !strings.HasPrefix(r.err, "slidegate: --otlp: ") || !strings.Contains(r.err, test.says) {
			t.Errorf("%v: status %d\n%swant an error about %s", test.set, r.status, r.err, test.says)
		}
	}
}

// TestCollectorIsTriedAtTheStart: a collector that cannot be reached is told while the service runs, and one signal alone can be sent.
func TestCollectorIsTriedAtTheStart(t *testing.T) {
	s := startServeWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, "--otlp")
	if !s.await("the collector cannot be reached") {
		t.Errorf("it ended:\n%s", s.text())
	}
	s.mustEnd(syscall.SIGTERM)

	c := newCollector(t)
	s = startServeWith(t, []string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=" + c.URL + "/v1/metrics", "OTEL_TRACES_EXPORTER=none"}, "--otlp")
	s.allow("me")
	s.mustEnd(syscall.SIGTERM)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent["POST /v1/metrics"]) == 0 || len(c.sent) != 1 || s.said("cannot be reached") || s.said("not sent") {
		t.Errorf("%d kinds were sent, want metrics alone:\n%s", len(c.sent), s.text())
	}
}
