package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/slidegate/slidegate"
	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/resp"
	"github.com/slidegate/slidegate/config"
)

// openListeners opens all listeners that have an address.
func (s *Server) openListeners() error {
	secure := s.certificates
	private := secure
	if isLoopback(s.opts.Admin) {
		private = nil
	}
	web := []string{"h2", "http/1.1"}
	for _, one := range []struct {
		name, option, address string
		open                  func(*listener, *tls.Config) error
		secure                *certificates
		protocols             []string
	}{
		{"http", "HTTP", s.opts.HTTP, func(ln *listener, c *tls.Config) error { return s.openHTTP(ln, s.public(), c) }, secure, web},
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
		ln := &listener{name: one.name, option: one.option, socket: socket, conns: s.bound(socket)}
		s.listeners = append(s.listeners, ln)
		s.warnIfOpen(ln)
		if err := one.open(ln, one.secure.config(one.protocols...)); err != nil {
			return err
		}
	}
	if err := s.watchRequests(); err != nil {
		return err
	}
	return s.telemetry.watchListeners(s.listeners)
}

// secureListeners returns the names of the listeners that use TLS.
func (s *Server) secureListeners() (names []string) {
	for _, one := range []struct{ name, address string }{
		{"http", s.opts.HTTP}, {"grpc", s.opts.GRPC}, {"resp", s.opts.RESP}, {"proxy", s.opts.Proxy}, {"admin", s.opts.Admin},
	} {
		if one.address != "" && (one.name != "admin" || !isLoopback(one.address)) {
			names = append(names, one.name)
		}
	}
	return names
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
	throttle, err := slidegate.NewPerCall(s.fallback(config.FailOpen), "cl.throttle")
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
		MaxConnections: min(s.opts.MaxConnections, 1<<20), // beyond that, only the listener's bound applies
		Batch:          s.stores.Memory == nil,            // over a network, a pipeline saves round trips
		LeaseThrottle:  s.opts.LeaseThrottle && s.stores.Memory == nil,
		OnChange: func(token *[sha256.Size]byte, operation string, req gate.Request) {
			ctx := context.Background()
			if token != nil {
				owner, _ := s.admins.owner(*token)
				ctx = context.WithValue(ctx, identity{}, owner)
			}
			s.recordChange(ctx, who(ctx, ""), operation, req)
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
