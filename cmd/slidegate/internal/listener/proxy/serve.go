package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/detach"
)

const (
	maxHeaderBytes   = 32 << 10
	headerTimeout    = 10 * time.Second // to send the header of a request
	keepAliveTimeout = 2 * time.Minute  // for the next request on a connection
)

// Server serves a proxy, and slow clients cannot tie it up. It bounds how long clients take, but not how many there are; the
// listener must do that. The zero value is not usable; call NewServer.
type Server struct {
	proxy       *Proxy
	http        *http.Server
	busy        atomic.Int64 // requests in progress, including websockets
	baseContext context.Context
	abort       context.CancelFunc // aborts requests in progress
}

// NewServer returns a server for the proxy. It serves TLS if secure is not nil. If around is not nil, NewServer calls it with the
// handler and serves the handler it returns, which must call the given one.
func (p *Proxy) NewServer(secure *tls.Config, wrap func(http.Handler) http.Handler) *Server {
	s := &Server{proxy: p}
	s.baseContext, s.abort = context.WithCancel(context.Background())
	handler := p.withIdleDeadlines()
	if wrap != nil {
		handler = wrap(handler)
	}
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.busy.Add(1)
			defer s.busy.Add(-1)
			handler.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return s.baseContext },
		TLSConfig:         secure,
		ReadHeaderTimeout: min(headerTimeout, p.opts.Idle),
		WriteTimeout:      p.opts.Idle, // for responses that the server writes itself; see withIdleDeadlines for the rest
		IdleTimeout:       keepAliveTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		// OPTIONS * is treated like other requests: it is limited, and the application answers it.
		DisableGeneralOptionsHandler: true,
	}
	return s
}

// ConnState sets the callback for changes of a connection's state, as in http.Server. It must be called before Serve.
func (s *Server) ConnState(hook func(net.Conn, http.ConnState)) { s.http.ConnState = hook }

// Serve serves a listener until Shutdown is called, and then returns nil. It closes the listener.
func (s *Server) Serve(listener net.Listener) (err error) {
	if s.http.TLSConfig != nil {
		err = s.http.ServeTLS(listener, "", "")
	} else {
		err = s.http.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("proxy: %w", err)
}

// Shutdown stops listening and lets requests in progress, including websockets, finish until ctx ends. Then it aborts and logs the
// remaining ones. It returns once no request is in progress and all slots are released.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if left := s.wait(ctx); err != nil || left > 0 {
		s.proxy.log.Warn("proxy: requests were aborted at shutdown", slog.Int64("requests", left))
	}
	s.abort()
	_ = s.http.Close() // aborts the remaining ones
	s.wait(context.Background())
	drainContext, cancel := context.WithTimeout(context.Background(), detach.MaxTime)
	defer cancel()
	if err := s.proxy.gate.Drain(drainContext); err != nil {
		s.proxy.log.Warn("proxy: some slots were not released and will expire", slog.Any("error", err))
	}
	return nil
}

// wait returns 0 when no request is in progress, or the number of requests in progress when ctx ends.
func (s *Server) wait(ctx context.Context) int64 {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.busy.Load() > 0 {
		select {
		case <-ctx.Done():
			return s.busy.Load()
		case <-tick.C:
		}
	}
	return 0
}
