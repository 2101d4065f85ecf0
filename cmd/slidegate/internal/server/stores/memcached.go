package stores

import (
	"context"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/store"
)

// memcachedTarget is the parsed URL of memcached servers.
type memcachedTarget struct {
	servers []string
	timeout time.Duration // per call
	engine  memcached.Options
	store   kvstore.Options
	offline store.Store
}

const (
	memcachedTimeout = 500 * time.Millisecond
	memcachedIdle    = 64 // idle connections kept per server
)

// parseMemcached parses the URL of memcached servers, over which the keys are distributed.
func parseMemcached(text string, opts *Options) (*memcachedTarget, error) {
	a, err := parseAddress(text, "11211", "prefix", "timeout", "clock")
	if err != nil {
		return nil, err
	}
	switch {
	case a.user != "" || a.password != "":
		return nil, invalid("URL", "users and passwords are not supported for memcached; let only this service reach its port")
	case len(a.path) > 0 && (len(a.path) > 1 || a.path[0] != ""):
		return nil, invalid("URL", "a memcached URL must have only parameters after its hosts")
	}
	t := &memcachedTarget{servers: a.hosts, timeout: memcachedTimeout, store: kvOptions(a.query.Get("prefix"), opts.Timeout)}
	if text := a.query.Get("timeout"); text != "" {
		if t.timeout, err = time.ParseDuration(text); err != nil || t.timeout <= 0 {
			return nil, invalid("URL", "timeout: must be a duration such as 500ms, not %q", text)
		}
	}
	switch clock := a.query.Get("clock"); clock {
	case "", "server":
		t.engine.ClockServer = t.servers[0] // all instances must name the same server first
	case "machine":
		t.engine.MachineClock = true
	default:
		return nil, invalid("URL", "clock: must be server or machine, not %q", clock)
	}
	t.offline, err = offlineKV(kvstore.Traits{Name: "memcached", Lossy: true, MaxName: 250, ServerClock: !t.engine.MachineClock}, t.store)
	return t, err
}

// connect creates a client, which connects on demand, and reads the clock.
func (t *memcachedTarget) connect(ctx context.Context) (*link, error) {
	client := memcache.New(t.servers...)
	client.Timeout, client.MaxIdleConns = t.timeout, memcachedIdle
	err := client.Ping()
	if err == nil {
		var engine *memcached.Engine
		if engine, err = memcached.Open(ctx, client, t.engine); err == nil {
			var st *kvstore.Store
			if st, err = kvstore.New(engine, t.store); err == nil {
				return t.link(client, engine, st), nil
			}
			engine.Close()
		}
	}
	_ = client.Close() // no call is in progress
	return nil, err
}

func (t *memcachedTarget) link(client *memcache.Client, engine kvEngine, st store.Store) *link {
	ping := func(context.Context) error { // bounded by the client's timeout
		if err := client.Ping(); err != nil {
			return failed("memcached", err)
		}
		return nil
	}
	return &link{store: st, ping: ping, close: func() {
		engine.Close()
		_ = client.Close() // no call is in progress
	}}
}
