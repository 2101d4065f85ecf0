package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/connlimit"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
	"github.com/slidegate/slidegate/store"
)

// ServeOptions are how a proxy is served. The zero value is good.
type ServeOptions struct {
	// TLS secures connections; nil leaves them plain.
	TLS *tls.Config
	// Idle is how long a client may keep the proxy waiting: for the next part of a request, or to take the next part of an
	// answer. 0 means a minute. While the application is the one who is waited for, it does not run.
	Idle time.Duration
	// DrainDelay is how long the listener stays open after ctx has ended. Answers are the last ones of their connections then, so that clients
	// go elsewhere.
	DrainDelay time.Duration
	// Drain is how long requests that are under way have after that; 0 means 10 seconds. Websockets have it too.
	Drain time.Duration
	// MaxConnections is how many connections are held at once, websockets included; 0 means 65536.
	MaxConnections int
	// MaxConnectionsPerAddress is how many of them one address may hold; 0 means a quarter of them. An address of IPv6 is a network of 64
	// bits. Trusted proxies have no such bound, nor has this machine if nobody is said to be trusted.
	MaxConnectionsPerAddress int
	// WebsocketIdle is how long nothing may pass on a websocket, either way, until it is cut off; 0 means 10 minutes.
	WebsocketIdle time.Duration
}

func (o ServeOptions) validate() (ServeOptions, error) {
	switch {
	case o.Idle < 0:
		return o, invalid("Idle", "must not be negative, but is %v; 0 means a minute", o.Idle)
	case o.DrainDelay < 0:
		return o, invalid("DrainDelay", "must not be negative, but is %v", o.DrainDelay)
	case o.Drain < 0:
		return o, invalid("Drain", "must not be negative, but is %v; 0 means 10 seconds", o.Drain)
	case o.MaxConnections < 0:
		return o, invalid("MaxConnections", "must not be negative, but is %d; 0 means 65536", o.MaxConnections)
	case o.MaxConnectionsPerAddress < 0:
		return o, invalid("MaxConnectionsPerAddress", "must not be negative, but is %d; 0 means a quarter of all", o.MaxConnectionsPerAddress)
	case o.WebsocketIdle < 0:
		return o, invalid("WebsocketIdle", "must not be negative, but is %v; 0 means 10 minutes", o.WebsocketIdle)
	}
	if o.Idle == 0 {
		o.Idle = time.Minute
	}
	if o.Drain == 0 {
		o.Drain = 10 * time.Second
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 1 << 16
	}
	if o.MaxConnectionsPerAddress == 0 {
		o.MaxConnectionsPerAddress = connlimit.PerAddress(o.MaxConnections)
	}
	if o.WebsocketIdle == 0 {
		o.WebsocketIdle = 10 * time.Minute
	}
	return o, nil
}

const (
	maxHeaderBytes = 32 << 10
	headerTimeout  = 10 * time.Second // to send the head of a request
	betweenTimeout = 2 * time.Minute  // for the next request on a connection
)

// Serve answers on a listener until ctx ends. Then it lets requests that are under way come to their end, cuts off those
// that take too long for that, and returns nil. It closes the listener.
func (p *Proxy) Serve(ctx context.Context, socket *listen.Listener, opts ServeOptions) error {
	opts, err := opts.validate()
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	busy := new(atomic.Int64)
	server := p.newServer(base, busy, &opts)
	server.Handler = listen.LastAnswers(ctx, server.Handler)
	listener := connlimit.New(socket, connlimit.Options{
		Max: opts.MaxConnections, MaxPerAddress: opts.MaxConnectionsPerAddress,
		Exempt: func(addr netip.Addr) bool { return connlimit.IsProxy(*p.trusted.Load(), addr) },
	})
	ended := make(chan error, 1)
	go func() {
		if opts.TLS != nil {
			ended <- server.ServeTLS(listener, "", "")
		} else {
			ended <- server.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("proxy: %w", err), server.Close())
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("proxy: %w", err), server.Close())
	case <-time.After(opts.DrainDelay):
	}
	limited, cancel := context.WithTimeout(base, opts.Drain)
	defer cancel()
	socket.Quiesce(limited)
	err = server.Shutdown(limited)
	if left := wait(limited, busy); err != nil || left > 0 {
		p.log.Warn("proxy: requests were cut off at the end", slog.Int64("requests", left))
	}
	cut()
	_ = server.Close() // those that are left are cut off
	wait(context.WithoutCancel(ctx), busy)
	released, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.FinishTime)
	defer cancel()
	if err := p.gate.Drain(released); err != nil {
		p.log.Warn("proxy: some slots end by themselves", slog.Any("error", err))
	}
	return nil
}

// wait returns when nothing is under way any more, or with how much there still is when ctx ends.
func wait(ctx context.Context, busy *atomic.Int64) int64 {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for busy.Load() > 0 {
		select {
		case <-ctx.Done():
			return busy.Load()
		case <-tick.C:
		}
	}
	return 0
}

func (p *Proxy) newServer(base context.Context, busy *atomic.Int64, opts *ServeOptions) *http.Server {
	handler := p.patiently(opts.Idle, opts.WebsocketIdle)
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			busy.Add(1)
			defer busy.Add(-1)
			handler.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return base },
		TLSConfig:         opts.TLS,
		ReadHeaderTimeout: min(headerTimeout, opts.Idle),
		WriteTimeout:      opts.Idle, // for what the server writes by itself; the rest see patiently
		IdleTimeout:       betweenTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		// OPTIONS * is a request like others: limited, and the application's to answer.
		DisableGeneralOptionsHandler: true,
	}
}
