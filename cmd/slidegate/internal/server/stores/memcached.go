package stores

import (
	"context"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/store"
)

// memcachedTarget is where memcached servers are.
type memcachedTarget struct {
	servers []string
	timeout time.Duration // of one call
	engine  memcached.Options
	store   kvstore.Options
	sketch  store.Store
}

const (
	memcachedTimeout = 500 * time.Millisecond
	memcachedIdle    = 64 // how many connections to each server are kept
)

// parseMemcached reads the URL of memcached servers, which share the keys among them.
func parseMemcached(text string, opts *Options) (*memcachedTarget, error) {
	a, err := parseAddress(text, "11211", "prefix", "timeout", "clock")
	if err != nil {
		return nil, err
	}
	switch {
	case a.user != "" || a.password != "":
		return nil, invalid("URL", "memcached has no users and passwords here; let only this service reach its port")
	case len(a.path) > 0 && (len(a.path) > 1 || a.path[0] != ""):
		return nil, invalid("URL", "a memcached URL has nothing after its hosts but parameters")
	}
	t := &memcachedTarget{servers: a.hosts, timeout: memcachedTimeout, store: kvOptions(a.query.Get("prefix"), opts.Timeout)}
	if text := a.query.Get("timeout"); text != "" {
		if t.timeout, err = time.ParseDuration(text); err != nil || t.timeout <= 0 {
			return nil, invalid("URL", "timeout: must be a time such as 500ms, not %q", text)
		}
	}
	switch clock := a.query.Get("clock"); clock {
	case "", "server":
		t.engine.ClockServer = t.servers[0] // which all instances must name first
	case "machine":
		t.engine.MachineClock = true
	default:
		return nil, invalid("URL", "clock: must be server or machine, not %q", clock)
	}
	t.sketch, err = sketchKV(kvstore.Traits{Name: "memcached", MaxName: 250, ServerClock: !t.engine.MachineClock}, t.store)
	return t, err
}

// connect makes a client, which connects whenever it is asked something, and reads the clock.
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
	_ = client.Close() // nothing is under way
	return nil, err
}

func (t *memcachedTarget) link(client *memcache.Client, engine kvEngine, st store.Store) *link {
	ping := func(context.Context) error { // which takes no longer than the timeout
		if err := client.Ping(); err != nil {
			return failed("memcached", err)
		}
		return nil
	}
	return &link{store: st, ping: ping, close: func() {
		engine.Close()
		_ = client.Close() // nothing is under way
	}}
}
