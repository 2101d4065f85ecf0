package stores_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/memcachedtest"
	"github.com/slidegate/slidegate/test/natstest"
)

func TestNATS(t *testing.T) {
	o := connected(t, natstest.Start(t)+"?bucket=limits&prefix=mine", patient())
	if o.Memory != nil {
		t.Error("it is not in memory")
	}
	if traits := o.Open.Traits(); traits.Name != "nats" || !traits.OneKey || !traits.ServerClock {
		t.Errorf("got the traits %+v", traits)
	}
	sameCounts(t, o)
}

// TestNATSDown: the failure modes answer, and the error does not have the password.
func TestNATSDown(t *testing.T) {
	o := open(t, "nats://u:hunter2@127.0.0.1:1", hasty())
	if err := o.Ping(ctx); !errors.Is(err, stores.ErrDown) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the store is down: %v", err)
	}
	for _, m := range modes(o) {
		if d := allow(t, limiter(t, m.store, "start")); d.Flags != m.flag || d.Allowed != m.allowed {
			t.Errorf("mode %s: got %+v, want flags %v and allowed %v", m.name, d, m.flag, m.allowed)
		}
	}
}

// TestEmbeddedNATS: a server in this process keeps counts, rulings and the key over a restart, and the folder is free at once.
func TestEmbeddedNATS(t *testing.T) {
	url := "nats:embedded?dir=" + t.TempDir()
	first := connected(t, url, patient())
	sameCounts(t, first)
	used := limiter(t, first.Open, "kept")
	for range 3 {
		if d := allow(t, used); !d.Allowed {
			t.Fatalf("one of three units: %+v", d)
		}
	}
	testkit.NoError(t, first.Rulings.Apply(ctx, rulings.Ruling{Policy: "p", Key: "a", Kind: rulings.Block, Who: "ann"}, nil))
	key, err := first.KeepKey(ctx, []byte("a first key"))
	testkit.NoError(t, err)
	testkit.NoError(t, first.Close())

	second := connected(t, url, patient())
	if d := allow(t, limiter(t, second.Open, "kept")); d.Allowed || d.Flags != 0 {
		t.Errorf("the fourth unit, after a restart: got %+v, want it refused", d)
	}
	if all, version, err := second.Rulings.Load(ctx, -1); err != nil || len(all) != 1 || version != 1 {
		t.Errorf("the rulings: got %v, %d, %v; want the one of before", all, version, err)
	}
	if kept, err := second.KeepKey(ctx, []byte("another key")); err != nil || !bytes.Equal(kept, key) {
		t.Errorf("the key: got %q, %v, want %q", kept, err, key)
	}
}

// TestRulingsInNATS has two instances change rulings at once over a real server. That the keeper does all that it must is tested
// beside it, without a server: ten thousand changes take a minute here.
func TestRulingsInNATS(t *testing.T) {
	url := natstest.Start(t)
	keepers := []rulings.Keeper{connected(t, url, patient()).Rulings, connected(t, url, patient()).Rulings}
	const each = 15
	var all sync.WaitGroup
	for i, keeper := range keepers {
		all.Go(func() {
			for j := range each {
				if err := keeper.Apply(ctx, rulings.Ruling{Policy: "p", Key: fmt.Sprint(i, "-", j), Kind: rulings.Block, Who: "ann"}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, keeper := range keepers {
		if all, version, err := keeper.Load(ctx, -1); err != nil || len(all) != 2*each || version != 2*each {
			t.Errorf("got %d rulings, version %d, %v; want all %d", len(all), version, err, 2*each)
		}
		if log, err := keeper.Log(ctx, 100); err != nil || len(log) != 2*each {
			t.Errorf("the log: got %d changes, %v; want %d", len(log), err, 2*each)
		}
	}
}

func TestPenaltyOnNATS(t *testing.T) { penaltyIsShared(t, natstest.Start(t)) }

func TestPenaltyOnMemcached(t *testing.T) {
	penaltyIsShared(t, "memcached://"+memcachedtest.Start(t).Addr())
}

// TestMemcached: it keeps counts, and nothing that must not be forgotten.
func TestMemcached(t *testing.T) {
	server := memcachedtest.Start(t)
	o := connected(t, "memcached://"+server.Addr(), patient())
	sameCounts(t, o)
	if o.Rulings != nil || o.KeepKey != nil {
		t.Error("a cache keeps rulings or a key")
	}
	server.Kill()
	if err := o.Ping(ctx); err == nil {
		t.Error("a dead server answers a ping")
	}
	server.Restart()
	testkit.Eventually(t, "a ping to be answered", func() bool { return o.Ping(ctx) == nil })
}
