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

	"github.com/slidegate/slidegate/store"
)

const (
	maxHeaderBytes = 32 << 10
	headerTimeout  = 10 * time.Second // to send the head of a request
	betweenTimeout = 2 * time.Minute  // for the next request on a connection
)

// Server serves a proxy to clients, of which no slow one can hold it. NewServer makes it. It bounds the time that clients take, and not
// how many there are: that is up to the listener.
type Server struct {
	proxy *Proxy
	http  *http.Server
	busy  atomic.Int64 // requests under way, websockets included
	ended context.Context
	cut   context.CancelFunc // ends what is under way
}

// NewServer returns a server of the proxy. With secure, connections are TLS; nil leaves them plain. Around, if it is not nil, is called
// with the handler and returns the one to use, which is to call it.
func (p *Proxy) NewServer(secure *tls.Config, around func(http.Handler) http.Handler) *Server {
	s := &Server{proxy: p}
	s.ended, s.cut = context.WithCancel(context.Background())
	handler := p.patiently()
	if around != nil {
		handler = around(handler)
	}
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.busy.Add(1)
			defer s.busy.Add(-1)
			handler.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return s.ended },
		TLSConfig:         secure,
		ReadHeaderTimeout: min(headerTimeout, p.opts.Idle),
		WriteTimeout:      p.opts.Idle, // for what the server writes by itself; the rest see patiently
		IdleTimeout:       betweenTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		// OPTIONS * is a request like others: limited, and the application's to answer.
		DisableGeneralOptionsHandler: true,
	}
	return s
}

// ConnState has told called when the state of a connection changes, as http.Server does. It must be called before Serve.
func (s *Server) ConnState(told func(net.Conn, http.ConnState)) { s.http.ConnState = told }

// Serve answers on a listener until Shutdown is called, and returns nil then. It closes the listener.
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

// Shutdown stops listening and lets requests that are under way come to their end until ctx ends, websockets too. Then it cuts
// off those that are left, which it logs. It returns once none is under way and their slots are released.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if left := s.wait(ctx); err != nil || left > 0 {
		s.proxy.log.Warn("proxy: requests were cut off at the end", slog.Int64("requests", left))
	}
	s.cut()
	_ = s.http.Close() // those that are left are cut off
	s.wait(context.Background())
	released, cancel := context.WithTimeout(context.Background(), store.FinishTime)
	defer cancel()
	if err := s.proxy.gate.Drain(released); err != nil {
		s.proxy.log.Warn("proxy: some slots end by themselves", slog.Any("error", err))
	}
	return nil
}

// wait returns when nothing is under way any more, or with how much there still is when ctx ends.
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
