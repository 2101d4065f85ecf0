package server

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
)

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
