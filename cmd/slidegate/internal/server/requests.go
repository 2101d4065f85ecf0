package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/latency"
)

// requests counts the requests to a listener by status.
type requests struct {
	status [600]atomic.Int64 // by HTTP status or gRPC code; index 0 counts those out of range
}

// usualHTTP, usualProxied and usualGRPC list the statuses that are reported from the start, so that their first event is visible
// as an increase.
var (
	usualHTTP    = []int{200, 400, 401, 403, 404, 429, 500, 503}
	usualProxied = append(slices.Clone(usualHTTP), 502, 504) // sent by the proxy when the application does not respond
	usualGRPC    = []int{int(codes.OK), int(codes.InvalidArgument), int(codes.Unauthenticated), int(codes.Unavailable)}
)

// http counts the responses of a handler.
func (q *requests) http(next http.Handler) http.Handler {
	writers := sync.Pool{New: func() any { return new(statusWriter) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sw := writers.Get().(*statusWriter)
		sw.ResponseWriter, sw.status = w, http.StatusOK
		defer func() { // also if a handler panics to abort a response
			q.add(sw.status)
			sw.ResponseWriter = nil
			writers.Put(sw)
		}()
		next.ServeHTTP(sw, r)
	})
}

func (q *requests) add(status int) {
	if status < 0 || status >= len(q.status) {
		status = 0
	}
	q.status[status].Add(1)
}

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the status, unless it is informational.
func (w *statusWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// grpcOptions counts the responses of a gRPC server, and measures the latency of Envoy's rate limit service.
func (s *Server) grpcOptions(q *requests) grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		began := time.Now()
		response, err := next(ctx, request)
		q.add(int(status.Code(err)))
		if req, ok := request.(*rls.RateLimitRequest); ok {
			if of := (*s.domainLatency.Load())[req.GetDomain()]; of != nil {
				of.Record(time.Since(began))
			}
		}
		return response, err
	})
}

// timeDomains enables latency measurement for the domains in force.
func (s *Server) timeDomains() {
	histograms := map[string]*latency.Histogram{}
	for _, d := range s.domains {
		histograms[d.Name()] = s.telemetry.latency.Of("grpc", "envoy:"+d.Name())
	}
	s.domainLatency.Store(&histograms)
}

// watchRequests reports how many requests each listener has answered, by status.
func (s *Server) watchRequests() error {
	meter := s.telemetry.meters.Meter(scope)
	_, err := meter.Int64ObservableCounter("slidegate.requests", metric.WithUnit("{request}"),
		metric.WithDescription("Responses of a listener, by status: HTTP status, gRPC code, or ok and error for RESP."),
		metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
			for _, ln := range s.listeners {
				s.observeListener(ln, func(status string, n int64) {
					to.Observe(n, metric.WithAttributes(attribute.String("listener", ln.name), attribute.String("status", status)))
				})
			}
			return nil
		}))
	return err
}

func (s *Server) observeListener(ln *listener, report func(status string, n int64)) {
	if ln.name == "resp" {
		ok, failed := s.resp.Replies()
		report("ok", ok)
		report("error", failed)
		return
	}
	usual, text := []int{http.StatusOK}, strconv.Itoa
	switch ln.name {
	case "http":
		usual = usualHTTP
	case "proxy":
		usual = usualProxied
	case "grpc":
		usual, text = usualGRPC, func(code int) string { return codes.Code(code).String() }
	}
	counts := map[int]int64{}
	for _, status := range usual {
		counts[status] = 0
	}
	for status := range ln.requests.status {
		if n := ln.requests.status[status].Load(); n > 0 {
			counts[status] = n
		}
	}
	for status, n := range counts {
		report(text(status), n)
	}
}
