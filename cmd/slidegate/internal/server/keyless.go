package server

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
)

// keyless is an exporter of spans that leaves out all by which a client can be recognised: its address and program, and the
// host and path that it asked for, are what keys are made of.
type keyless struct{ trace.SpanExporter }

// ExportSpans exports what is left of spans.
func (k keyless) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	bare := make([]trace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		bare[i] = bareSpan{span}
	}
	return k.SpanExporter.ExportSpans(ctx, bare)
}

// harmless are the attributes that have no more values than we give them.
var harmless = map[attribute.Key]bool{
	"http.request.method": true, "http.response.status_code": true, "http.route": true, "url.scheme": true,
	"network.protocol.name": true, "network.protocol.version": true, "error.type": true,
	"rpc.system": true, "rpc.system.name": true, "rpc.service": true, "rpc.method": true,
	"rpc.grpc.status_code": true, "rpc.response.status_code": true,
}

// bareSpan is a span with the harmless attributes alone.
type bareSpan struct{ trace.ReadOnlySpan }

// Attributes returns them.
func (s bareSpan) Attributes() []attribute.KeyValue {
	var all []attribute.KeyValue
	for _, a := range s.ReadOnlySpan.Attributes() {
		if harmless[a.Key] {
			all = append(all, a)
		}
	}
	return all
}
