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
	o := openConnected(t, natstest.Start(t)+"?bucket=limits&prefix=mine", patientOptions())
	if o.Memory != nil {
		t.Error("Memory is set for a store that is not in memory")
	}
	if traits := o.Open.Traits(); traits.Name != "nats" || !traits.OneKey || !traits.ServerClock {
		t.Errorf("got traits %+v", traits)
	}
	checkSharedCounts(t, o)
}

// TestNATSDown checks that the failure modes decide, and that the error does not contain the password.
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

// TestEmbeddedNATS checks that a server in this process keeps counts, rulings and the key across a restart, and that its folder is
// free at once.
func TestEmbeddedNATS(t *testing.T) {
	url := "nats:embedded?dir=" + t.TempDir()
	first := openConnected(t, url, patientOptions())
	checkSharedCounts(t, first)
	used := limiter(t, first.Open, "kept")
	for range 3 {
		if d := allow(t, used); !d.Allowed {
			t.Fatalf("one of three units: got %+v, want allowed", d)
		}
	}
	testkit.NoError(t, first.Rulings.Apply(ctx, rulings.Ruling{Policy: "p", Key: "a", Kind: rulings.Block, Who: "ann"}, nil))
	key, err := first.KeepKey(ctx, []byte("a first key"))
	testkit.NoError(t, err)
	testkit.NoError(t, first.Close())

	second := openConnected(t, url, patientOptions())
	if d := allow(t, limiter(t, second.Open, "kept")); d.Allowed || d.Flags != 0 {
		t.Errorf("the fourth unit, after a restart: got %+v, want refused", d)
	}
	if all, version, err := second.Rulings.Load(ctx, -1); err != nil || len(all) != 1 || version != 1 {
		t.Errorf("the rulings: got %v, %d, %v; want the ruling from before", all, version, err)
	}
	if kept, err := second.KeepKey(ctx, []byte("another key")); err != nil || !bytes.Equal(kept, key) {
		t.Errorf("the key: got %q, %v, want %q", kept, err, key)
	}
}

// TestRulingsInNATS changes rulings concurrently from two instances over a real server. The contract of the keeper is tested in its
// own package, without a server: ten thousand changes would take a minute here.
func TestRulingsInNATS(t *testing.T) {
	url := natstest.Start(t)
	keepers := []rulings.Keeper{openConnected(t, url, patientOptions()).Rulings, openConnected(t, url, patientOptions()).Rulings}
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

func TestPenaltyOnNATS(t *testing.T) { checkSharedPenalty(t, natstest.Start(t)) }

func TestPenaltyOnMemcached(t *testing.T) {
	checkSharedPenalty(t, "memcached://"+memcachedtest.Start(t).Addr())
}

// TestMemcached checks that memcached keeps counts, but nothing that must never be lost.
func TestMemcached(t *testing.T) {
	server := memcachedtest.Start(t)
	o := openConnected(t, "memcached://"+server.Addr(), patientOptions())
	checkSharedCounts(t, o)
	if o.Rulings != nil || o.KeepKey != nil {
		t.Error("memcached is used for rulings or for the signing key")
	}
	server.Kill()
	if err := o.Ping(ctx); err == nil {
		t.Error("a dead server answers a ping")
	}
	server.Restart()
	testkit.Eventually(t, "a ping to be answered", func() bool { return o.Ping(ctx) == nil })
}
