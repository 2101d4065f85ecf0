package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/connlimit"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/proxy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/service/listen"
	"github.com/slidegate/slidegate/store"
)

// openListeners opens all listeners that have an address.
func (s *Server) openListeners() error {
	secure := s.certificates
	private := secure
	if isLoopback(s.opts.Admin) {
		private = nil
	}
	public := secure
	if s.opts.PlainHTTP {
		public = nil
	}
	web := []string{"h2", "http/1.1"}
	for _, one := range []struct {
		name, option, address string
		open                  func(*listener, *tls.Config) error
		secure                *certificates
		protocols             []string
	}{
		{"http", "HTTP", s.opts.HTTP, func(ln *listener, c *tls.Config) error { return s.openHTTP(ln, s.public(), c) }, public, web},
		{"grpc", "GRPC", s.opts.GRPC, s.openGRPC, secure, []string{"h2"}},
		{"resp", "RESP", s.opts.RESP, s.openRESP, secure, nil},
		{"proxy", "Proxy", s.opts.Proxy, s.openProxy, secure, web},
		{"admin", "Admin", s.opts.Admin, func(ln *listener, c *tls.Config) error { return s.openHTTP(ln, s.admin(), c) }, private, web},
		{"metrics", "Metrics", s.opts.Metrics, func(ln *listener, c *tls.Config) error { return s.openHTTP(ln, s.metricsHandler(), c) }, nil, web},
	} {
		if one.address == "" {
			continue
		}
		socket, err := s.socket(one.name, one.option, one.address)
		if err != nil {
			return err
		}
		ln := &listener{name: one.name, option: one.option, socket: socket, conns: s.bound(socket), secure: one.secure != nil}
		s.listeners = append(s.listeners, ln)
		s.warnIfOpen(ln)
		if err := one.open(ln, one.secure.config(one.protocols...)); err != nil {
			return err
		}
	}
	_, err := instrument.Register(s.telemetry.meters, serverTable, func() *Server { return s })
	return err
}

func (s *Server) openHTTP(ln *listener, handler http.Handler, secure *tls.Config) error {
	handler = ln.requests.http(addresses.CloseWhenDraining(s.drained, s.checkHost(ln.conns.Addr(), handler)))
	server := newHTTP(handler, secure, s.opts.timeouts, s.log)
	server.ConnState = ln.conns.ConnState
	ln.serve = func(l net.Listener) (err error) {
		if secure != nil {
			err = server.ServeTLS(l, "", "")
		} else {
			err = server.Serve(l)
		}
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
	ln.stop = func(ctx context.Context) error {
		ln.conns.Settle(ctx)
		err := server.Shutdown(ctx)
		if err != nil {
			_ = server.Close() // the remaining clients have had their time
		}
		return err
	}
	return nil
}

func (s *Server) openGRPC(ln *listener, secure *tls.Config) error {
	options := append(slices.Concat(s.telemetry.tracedGRPC(), []grpc.ServerOption{s.grpcOptions(&ln.requests)}, s.tokens.interceptors()),
		grpc.ChainStreamInterceptor(s.endWithListeners),
		// A goroutine per request would have to grow its stack each time, which costs as much as several decisions.
		grpc.NumStreamWorkers(uint32(32*runtime.GOMAXPROCS(0))),
		grpc.InitialWindowSize(1<<20), grpc.InitialConnWindowSize(1<<20), // fixed sizes: no pings to estimate them
		grpc.MaxRecvMsgSize(1<<20), grpc.MaxConcurrentStreams(1000), grpc.ConnectionTimeout(s.opts.timeouts.header),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	server := grpc.NewServer(options...)
	s.envoy.Register(server)
	ln.serve = server.Serve
	ln.stop = func(ctx context.Context) error {
		done := make(chan struct{})
		go func() {
			defer close(done)
			server.GracefulStop()
		}()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			server.Stop()
			<-done
			return ctx.Err()
		}
	}
	return nil
}

// endWithListeners ends a stream when the listeners close. The only long-lived streams are health watches, which would
// otherwise delay shutdown by all of Options.Drain.
func (s *Server) endWithListeners(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	return next(server, &contextStream{stream, ctx})
}

// contextStream is a stream with its own context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns a context that ends when the stream should.
func (s *contextStream) Context() context.Context { return s.ctx }

func (s *Server) openRESP(ln *listener, secure *tls.Config) error {
	throttle, err := slidegate.New(slidegate.Namespace(store.In(s.stores.Store, s.opts.File.Service.Failure), "cl.throttle"))
	if err != nil {
		return err
	}
	periods := 0
	if s.stores.Memory == nil {
		periods = -1 // a server keeps nothing for each
	}
	server, err := resp.New(s.gate, throttle, resp.Options{
		MaxPeriods: periods,
		Tokens:     s.tokens.texts(), AdminTokens: s.admins.texts(), Logger: s.log, MeterProvider: s.telemetry.meters,
		MaxGuests:     max(1, s.opts.MaxConnections/4),
		Batch:         s.stores.Memory == nil, // over a network, a pipeline saves round trips
		LeaseThrottle: s.opts.LeaseThrottle && s.stores.Memory == nil,
		OnReset: func(token *[sha256.Size]byte, req gate.Request) {
			ctx := context.Background()
			if token != nil {
				owner, _ := s.admins.owner(*token)
				ctx = context.WithValue(ctx, identity{}, owner)
			}
			s.recordChange(ctx, who(ctx, ""), "reset", req)
		},
	})
	if err != nil {
		return err
	}
	s.resp = server
	ln.serve = func(l net.Listener) error {
		if secure != nil {
			l = tls.NewListener(l, secure)
		}
		return server.Serve(l)
	}
	ln.stop = server.Shutdown
	return nil
}

// socket opens the address of a listener, or returns the socket that was passed in for it.
func (s *Server) socket(name, option, address string) (*addresses.Listener, error) {
	if inherited := s.opts.Sockets[name]; inherited != nil {
		return addresses.Inherited(inherited), nil
	}
	opened, err := addresses.Options{ReusePort: s.opts.ReusePort, Mode: s.opts.SocketMode}.Open(address)
	if err != nil {
		return nil, invalid(option, "%w", err)
	}
	return opened, nil
}

// bound applies the connection limits to a socket.
func (s *Server) bound(socket *addresses.Listener) *connlimit.Listener {
	return connlimit.New(socket, connlimit.Options{
		Max: s.opts.MaxConnections, MaxPerAddress: s.opts.MaxConnectionsPerAddress,
		Exempt: func(addr netip.Addr) bool {
			trusted, listed := s.gate.Trusts(addr)
			return trusted || !listed && addr.IsLoopback()
		},
	})
}

// openApplication creates the proxy to the application, if Options.Proxy is set.
func (s *Server) openApplication() (err error) {
	if s.opts.Proxy == "" {
		return nil
	}
	o := s.opts.Application
	o.Logger = s.log
	s.proxy, err = proxy.New(s.gate, o)
	return err
}

// openProxy prepares the listener of the proxy. It checks neither the host nor a token: both are up to the application.
func (s *Server) openProxy(ln *listener, secure *tls.Config) error {
	server := s.proxy.NewServer(secure, func(next http.Handler) http.Handler {
		return ln.requests.http(addresses.CloseWhenDraining(s.drained, s.telemetry.traced(next)))
	})
	server.ConnState(ln.conns.ConnState)
	ln.serve = server.Serve
	ln.stop = func(ctx context.Context) error {
		ln.conns.Settle(ctx)
		return server.Shutdown(ctx)
	}
	return nil
}

// rejection returns why the proxy, or the check of requests for other proxies, rejects a request before the policies see it, or "".
func (s *Server) rejection(r *http.Request) string {
	if s.proxy != nil {
		return s.proxy.Rejection(r)
	}
	return s.forward.Rejection(r)
}

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
		sw.ResponseWriter, sw.status = w, 0
		missing := http.StatusInternalServerError // if the handler panics before it responds,
		defer func() {
			if r.Context().Err() != nil { // which the proxy's does if the client has left
				missing = problemjson.StatusClientLeft
			}
			q.add(cmp.Or(sw.status, missing))
			sw.ResponseWriter = nil
			writers.Put(sw)
		}()
		next.ServeHTTP(sw, r)
		sw.status = cmp.Or(sw.status, http.StatusOK)
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
	latency := s.telemetry.latency.Of(gate.GRPC)
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		began := time.Now()
		response, err := next(ctx, request)
		q.add(int(status.Code(err)))
		if _, ok := request.(*rls.RateLimitRequest); ok {
			latency.Record(time.Since(began))
		}
		return response, err
	})
}
