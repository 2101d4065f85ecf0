package server

import (
	"context"
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
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/resp"
	"github.com/slidegate/slidegate/config"
)

// openDoors opens all doors that have an address.
func (s *Server) openDoors() error {
	secure := s.certificates
	private := secure
	if isLoopback(s.opts.Admin) {
		private = nil
	}
	web := []string{"h2", "http/1.1"}
	for _, d := range []struct {
		name, option, address string
		open                  func(*door, *tls.Config) error
		secure                *certificates
		protocols             []string
	}{
		{"http", "HTTP", s.opts.HTTP, func(d *door, c *tls.Config) error { return s.openHTTP(d, s.public(), c) }, secure, web},
		{"grpc", "GRPC", s.opts.GRPC, s.openGRPC, secure, []string{"h2"}},
		{"resp", "RESP", s.opts.RESP, s.openRESP, secure, nil},
		{"proxy", "Proxy", s.opts.Proxy, s.openProxy, secure, web},
		{"admin", "Admin", s.opts.Admin, func(d *door, c *tls.Config) error { return s.openHTTP(d, s.admin(), c) }, private, web},
		{"metrics", "Metrics", s.opts.Metrics, func(d *door, c *tls.Config) error { return s.openHTTP(d, s.measures(), c) }, nil, web},
	} {
		if d.address == "" {
			continue
		}
		socket, err := s.socket(d.name, d.option, d.address)
		if err != nil {
			return err
		}
		made := &door{name: d.name, option: d.option, socket: socket, listener: s.bound(socket)}
		s.doors = append(s.doors, made)
		s.warnIfOpen(made)
		if err := d.open(made, d.secure.config(d.protocols...)); err != nil {
			return err
		}
	}
	if err := s.watchRequests(); err != nil {
		return err
	}
	return s.telemetry.watchDoors(s.doors)
}

func (s *Server) openHTTP(d *door, handler http.Handler, secure *tls.Config) error {
	handler = d.requests.http(addresses.LastAnswers(s.drained, s.checkHost(d.listener.Addr(), handler)))
	server := newHTTP(handler, secure, s.opts.timeouts, s.log)
	server.ConnState = d.listener.ConnState
	d.serve = func(l net.Listener) (err error) {
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
	d.stop = func(ctx context.Context) error {
		d.listener.Settle(ctx)
		err := server.Shutdown(ctx)
		if err != nil {
			_ = server.Close() // whoever is still there has had its time
		}
		return err
	}
	return nil
}

func (s *Server) openGRPC(d *door, secure *tls.Config) error {
	options := append(slices.Concat(s.telemetry.tracedGRPC(), []grpc.ServerOption{s.grpcOptions(&d.requests)}, s.tokens.interceptors()),
		grpc.ChainStreamInterceptor(s.endWithDoors),
		// A goroutine for each request would grow its stack anew, at the price of some decisions.
		grpc.NumStreamWorkers(uint32(32*runtime.GOMAXPROCS(0))),
		grpc.InitialWindowSize(1<<20), grpc.InitialConnWindowSize(1<<20), // fixed ones: no pings to find them out
		grpc.MaxRecvMsgSize(1<<20), grpc.MaxConcurrentStreams(1000), grpc.ConnectionTimeout(s.opts.timeouts.header),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	server := grpc.NewServer(options...)
	s.envoy.Register(server)
	d.serve = server.Serve
	d.stop = func(ctx context.Context) error {
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

// endWithDoors ends a stream when the doors close. The only ones that last are watches of its health, which would
// otherwise hold up the end for all of Options.Drain.
func (s *Server) endWithDoors(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	return next(server, &shortStream{stream, ctx})
}

// shortStream is a stream with a context of its own.
type shortStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context ends when the stream should.
func (s *shortStream) Context() context.Context { return s.ctx }

func (s *Server) openRESP(d *door, secure *tls.Config) error {
	throttle, err := slidegate.NewPerCall(s.fallback(config.FailOpen), "cl.throttle")
	if err != nil {
		return err
	}
	server, err := resp.New(s.gate, throttle, resp.Options{
		Tokens: s.tokens.texts(), AdminTokens: s.admins.texts(), Logger: s.log, MeterProvider: s.telemetry.meters,
		MaxConnections: min(s.opts.MaxConnections, 1<<20), // more than that, the listener alone bounds
		Batch:          s.stores.Memory == nil,            // over a network a pipeline is worth one round trip
		LeaseThrottle:  s.opts.LeaseThrottle && s.stores.Memory == nil,
	})
	if err != nil {
		return err
	}
	s.resp = server
	d.serve = func(l net.Listener) error {
		if secure != nil {
			l = tls.NewListener(l, secure)
		}
		return server.Serve(l)
	}
	d.stop = server.Shutdown
	return nil
}
