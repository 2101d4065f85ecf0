package memcached

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/internal/connect"
	"github.com/slidegate/slidegate/internal/storeurl"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/store"
)

// Open opens the store at a URL:
//
//	memcached://HOST:PORT,HOST:PORT               ?prefix=TEXT &timeout=500ms &clock=machine
//
// The timeout is that of one read or write. The clock is that of the first server unless clock=machine is set. All processes must list the
// same servers in the same order.
//
// Servers that are down are not an error. If it is the first, or with clock=machine all, the store connects in the background, and until
// then all requests fail; if it is another, only those for its keys. An invalid URL is an error, and so is a first server that requires a
// user and a password, which this package does not support.
func Open(ctx context.Context, url string) (store.Connection, error) {
	return connect.Open(ctx, driverOf, url)
}

func init() { connect.Register(driverOf, "memcached") }

// driverOf returns the driver of a URL.
func driverOf(url string) (*connect.Driver, error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("memcached: URL: %w", err)
	}
	traits := kvstore.Traits{Name: "memcached", Lossy: true, MaxName: maxName, ServerClock: !t.engine.MachineClock}
	offline, err := kvstore.NewOffline(traits, t.store)
	if err != nil {
		return nil, fmt.Errorf("memcached: URL: %w", storeurl.Errorf("%w", err))
	}
	return &connect.Driver{Offline: offline, Connect: t.connect}, nil
}

// target is the parsed URL of memcached servers.
type target struct {
	servers []string
	timeout time.Duration // per call
	engine  Options
	store   kvstore.Options
}

const (
	callTimeout = 500 * time.Millisecond
	maxIdle     = 64 // idle connections kept per server
)

// parseURL parses the URL of memcached servers, over which the keys are distributed.
func parseURL(text string) (*target, error) {
	a, err := storeurl.Parse(text, "11211", "prefix", "timeout", "clock")
	if err != nil {
		return nil, err
	}
	switch {
	case a.Scheme != "memcached":
		return nil, storeurl.Errorf("the URL must begin with memcached://")
	case a.User != "" || a.Password != "":
		return nil, storeurl.Errorf("users and passwords are not supported for memcached; let only this service reach its port")
	case len(a.Path) > 0 && (len(a.Path) > 1 || a.Path[0] != ""):
		return nil, storeurl.Errorf("a memcached URL must have only parameters after its hosts")
	}
	t := &target{servers: a.Hosts, timeout: callTimeout, store: kvstore.Options{Prefix: a.Query.Get("prefix")}}
	if text := a.Query.Get("timeout"); text != "" {
		if t.timeout, err = time.ParseDuration(text); err != nil || t.timeout <= 0 {
			return nil, storeurl.Errorf("timeout: must be a duration such as 500ms, not %q", text)
		}
		t.store.Timeout = max(time.Second, 2*t.timeout) // a read and a write
	}
	switch clock := a.Query.Get("clock"); clock {
	case "", "server":
		t.engine.ClockServer = t.servers[0] // all instances must name the same server first
	case "machine":
		t.engine.MachineClock = true
	default:
		return nil, storeurl.Errorf("clock: must be server or machine, not %q", clock)
	}
	return t, nil
}

// connect creates a client, which connects on demand, and reads the clock.
func (t *target) connect(ctx context.Context, _ *slog.Logger) (*connect.Link, error) {
	servers := new(memcache.ServerList)
	if err := servers.SetServers(t.servers...); err != nil {
		return nil, fault(err)
	}
	client := memcache.NewFromSelector(servers)
	client.Timeout, client.MaxIdleConns = t.timeout, maxIdle
	client.DialContext = func(_ context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: t.timeout}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return storeurl.NewConn(ctx, conn), nil
	}
	link, err := t.open(ctx, client, servers)
	if err != nil {
		_ = client.Close() // no call is in progress
		return nil, fault(err)
	}
	return link, nil
}

func (t *target) open(ctx context.Context, client *memcache.Client, servers *memcache.ServerList) (*connect.Link, error) {
	if t.engine.MachineClock { // New calls no server then
		if err := t.anyAnswers(client); err != nil {
			return nil, err
		}
	}
	opts := t.engine
	opts.Servers = servers
	engine, err := New(ctx, client, opts)
	if err != nil {
		return nil, err
	}
	st, err := kvstore.New(engine, t.store)
	if err != nil {
		engine.Close()
		return nil, err
	}
	return &connect.Link{Store: st, Close: func() {
		engine.Close()
		_ = client.Close() // no call is in progress
	}}, nil
}

// anyAnswers returns an error if no server answers.
func (t *target) anyAnswers(client *memcache.Client) (err error) {
	for _, address := range t.servers {
		one := memcache.New(address)
		one.Timeout, one.DialContext = client.Timeout, client.DialContext
		if err = one.Ping(); err == nil {
			return one.Close()
		}
	}
	return err
}
