package memcached_test

import (
	"context"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/memcachedtest"
)

// open returns an engine that decides by the clock of the server at an address.
func open(t testing.TB, client *memcache.Client, clockServer string) *memcached.Engine {
	t.Helper()
	engine := kit.Must(memcached.New(t.Context(), client, memcached.Options{ClockServer: clockServer}))(t)
	t.Cleanup(engine.Close)
	return engine
}

// openOnMachineClock returns an engine that decides by the clock of this machine.
func openOnMachineClock(t testing.TB, client *memcache.Client) *memcached.Engine {
	t.Helper()
	return kit.Must(memcached.New(t.Context(), client, memcached.Options{MachineClock: true}))(t)
}

// openOnServer returns an engine over one server.
func openOnServer(t testing.TB, s *memcachedtest.Server) *memcached.Engine {
	t.Helper()
	return open(t, s.Client(t), s.Addr())
}

// newStore returns a store with a long timeout, unless the options set another one: the machine may be busy.
func newStore(t testing.TB, engine kvstore.Engine, opts kvstore.Options) *kvstore.Store {
	t.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = time.Minute
	}
	return kit.Must(kvstore.New(engine, opts))(t)
}

// take requests units.
func take(ctx context.Context, s store.Store, limit *store.Limit, key string, cost int64) (rule.Answer, error) {
	var answers [1]rule.Answer
	charges := []store.Charge{{Limit: limit, Key: key, Cost: cost}}
	err := s.Apply(ctx, []store.Request{{Op: rule.Take, Charges: charges, Answers: answers[:]}})
	return answers[0], err
}

// In short mode, unless long histories are selected: each check takes some hundred round trips.
func TestContract(t *testing.T) {
	t.Parallel()
	engine := openOnServer(t, memcachedtest.Start(t))
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, engine, kvstore.Options{Now: clock.Now})
	}, storetest.Options{Short: *historyLength < time.Minute})
}

// With several servers, each name is on one of them.
func TestContractOverSeveralServers(t *testing.T) {
	t.Parallel()
	first, second := memcachedtest.Start(t), memcachedtest.Start(t)
	engine := open(t, memcachedtest.Client(t, first.Addr(), second.Addr()), first.Addr())
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, engine, kvstore.Options{Now: clock.Now})
	}, storetest.Options{Short: true})
	for _, s := range []*memcachedtest.Server{first, second} {
		if s.Count("curr_items") == 0 {
			t.Errorf("the server at %s keeps nothing", s.Addr())
		}
	}
}
