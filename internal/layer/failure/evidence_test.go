package failure_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// world is a store with locked rows, slow answers and busy connections that can die and come back.
type world struct {
	*remote
	mu     sync.Mutex
	random *rand.Rand
	dead   bool
	layer  *failure.Store // over it
	probed []sighting     // when it was probed
}

// sighting is a probe, and whether the layer took the store to be out when it was sent.
type sighting struct {
	at  time.Time
	out bool
}

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) kill(dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = dead
}

func (w *world) isDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// sightings returns the probes so far. A watched store may be probed while it is called.
func (w *world) sightings() []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.probed)
}

func (w *world) Apply(ctx context.Context, batch []store.Request) error {
	key := batch[0].Charges[0].Key
	if isProbe(batch) {
		w.mu.Lock()
		w.probed = append(w.probed, sighting{time.Now(), w.layer != nil && w.layer.Health() != nil})
		w.mu.Unlock()
		key = "probe"
	}
	switch {
	case w.isDead() || key == "locked":
		<-ctx.Done()
		return batches.FailAll(batch, ctx.Err())
	case key == "unreadable":
		return batches.FailAll(batch, errOne)
	case key == "unlucky":
		return batches.FailAll(batch, fmt.Errorf("world: no connection: %w: %w", store.ErrBusy, store.ErrUndone))
	}
	select {
	case <-time.After(time.Duration(w.draw(40)) * time.Millisecond):
	case <-ctx.Done():
	}
	if w.isDead() || ctx.Err() != nil {
		<-ctx.Done()
		return batches.FailAll(batch, ctx.Err())
	}
	return w.Store.Apply(ctx, batch)
}

// ask sends requests for a key until ctx ends. Some callers leave early.
func (w *world) ask(ctx context.Context, st *failure.Store, limit *store.Limit, key string, pause int) {
	for ctx.Err() == nil {
		own, cancel := context.WithCancel(context.Background())
		if w.draw(3) == 0 {
			time.AfterFunc(time.Duration(w.draw(120))*time.Millisecond, cancel)
		}
		_, _ = ways["TakeSingle"](own, st, store.Charge{Limit: limit, Key: key, Cost: 1})
		cancel()
		testkit.Delay(time.Duration(w.draw(pause)) * time.Millisecond)
	}
}

// Whatever clients do, a store that accepts a charge is not out; a store that is dead is found to be, and to be back, within a
// probe interval; and probes are half a timeout apart at least, and a probe interval if the store is out.
func TestEvidence(t *testing.T) {
	keys := []string{"locked", "unreadable", "unlucky", "good"}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 5))
			w := &world{remote: newRemote(t), random: random}
			st := newStore(t, w, store.FailOpen, failure.Options{Watch: seed%3 == 0})
			limit := bind(t, slidegate.PerHour(1_000_000))
			ctx, cancel := context.WithCancel(t.Context())
			w.layer = st
			var all sync.WaitGroup
			for _, key := range keys[:1+w.draw(len(keys))] { // with or without a key that the store answers
				for range 1 + w.draw(3) {
					all.Go(func() { w.ask(ctx, st, limit, key, 150) })
				}
			}
			for range 100 {
				testkit.Pass(50 * time.Millisecond)
				if err := st.Health(); err != nil {
					t.Fatalf("seed %d: the store accepts charges, but: %v", seed, err)
				}
			}
			for range 2 {
				w.kill(true)
				testkit.Pass(1500 * time.Millisecond)
				if st.Health() == nil {
					t.Fatalf("seed %d: the store is dead, and called", seed)
				}
				testkit.Pass(time.Duration(w.draw(3000)) * time.Millisecond)
				w.kill(false)
				testkit.Pass(1100 * time.Millisecond)
				if err := st.Health(); err != nil {
					t.Fatalf("seed %d: the store is back, but: %v", seed, err)
				}
			}
			cancel()
			all.Wait()
			probed := w.sightings()
			for i, probe := range probed[1:] {
				gap, least := probe.at.Sub(probed[i].at), 50*time.Millisecond
				if probe.out {
					least = time.Second
				}
				if gap < least {
					t.Errorf("seed %d: two probes within %v, the second while the store was out: %t", seed, gap, probe.out)
				}
			}
		})
	}
}

// On a store that is idle but for one locked row, no call after the first finds an outage either, although no probe is due.
func TestLockedRowOfAnIdleStore(t *testing.T) {
	each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
		w := &world{remote: newRemote(t), random: rand.New(rand.NewPCG(1, 1))}
		st := newStore(t, lockedFor("k", w), mode, failure.Options{})
		late := mode
		if mode == store.FailOpen {
			late = store.FailLocal
		}
		for begin := time.Now(); time.Since(begin) < 10*time.Second; {
			if a := take(st); a.Flags != modes[late] {
				t.Fatalf("got %+v, want the flag %v", a, modes[late])
			}
			testkit.Delay(20 * time.Millisecond)
		}
		got := st.Stats()
		if got.Outages != 0 || got.Late < 10 || got.Late > 13 || got.Shed < 300 || got.Probes > 11 {
			t.Errorf("got %+v, want 3 late calls and then one per second, no outage, at most one probe per second", got)
		}
	})
}

// A probe that waits in a queue of calls that are answered is not an outage.
func TestLateProbeOfABusyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		inner.do(func(ctx context.Context, batch []store.Request) error {
			if isProbe(batch) || batch[0].Charges[0].Key == "locked" {
				<-ctx.Done()
				return batches.FailAll(batch, ctx.Err())
			}
			testkit.Delay(80 * time.Millisecond)
			return inner.Store.Apply(ctx, batch)
		})
		st := newStore(t, inner, store.FailOpen, failure.Options{Watch: true})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for _, key := range []string{"locked", "good"} {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = apply(t, st, rule.Peek, store.Charge{Limit: bind(t, ten), Key: key, Cost: 1})
					testkit.Delay(time.Millisecond)
				}
			})
		}
		all.Wait()
		if got := st.Stats(); got.Outages != 0 || got.Probes < 4 {
			t.Errorf("got %+v, want probes and no outage", got)
		}
	})
}

// A call whose error makes the layer ask the store again still takes no longer than Timeout.
func TestWaitForTheProbeIsBounded(t *testing.T) {
	each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		inner.do(func(ctx context.Context, batch []store.Request) error {
			if isProbe(batch) {
				<-ctx.Done()
				return batches.FailAll(batch, ctx.Err())
			}
			testkit.Delay(20 * time.Millisecond)
			return batches.FailAll(batch, errOne)
		})
		st := newStore(t, inner, mode, failure.Options{})
		if took := timed(func() { take(st) }); took != 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		testkit.Pass(20 * time.Millisecond)
		if st.Health() == nil {
			t.Error("the probe was not answered, and the store is not out")
		}
	})
}

// A store whose connections break, and that is gone, is found at once, although it was probed just before.
func TestBrokenConnectionsAreFoundAtOnce(t *testing.T) {
	each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		st := newStore(t, inner, mode, failure.Options{Watch: true})
		testkit.Pass(10*time.Second + 60*time.Millisecond)
		inner.fail(fmt.Errorf("remote: connection reset: %w", store.ErrBusy))
		if a := take(st); a.Flags != modes[mode] || st.Health() == nil {
			t.Errorf("got %+v, health: %v; want the outage to be found", a, st.Health())
		}
	})
}

// Mistakes of callers do not look like answers of a store that is dead.
func TestMistakesDoNotHideAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		inner.do(func(ctx context.Context, batch []store.Request) error {
			if batch[0].Charges[0].Key == "wrong" {
				return batches.FailAll(batch, store.ErrUnsupported)
			}
			<-ctx.Done()
			return batches.FailAll(batch, ctx.Err())
		})
		st := newStore(t, inner, store.FailOpen, failure.Options{})
		limit := bind(t, ten)
		var wrong sync.WaitGroup
		wrong.Go(func() {
			for range 30 {
				_, _ = apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "wrong", Cost: 1})
				testkit.Delay(5 * time.Millisecond)
			}
		})
		if a, err := apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "k", Cost: 1}); err != nil || a.Flags != rule.FallbackOpen {
			t.Errorf("got %+v, %v, want the outage to be found", a, err)
		}
		wrong.Wait()
	})
}

// lockedStore is a store in which the row of one key is locked.
type lockedStore struct {
	store.Store
	key string
}

func lockedFor(key string, st store.Store) store.Store { return lockedStore{st, key} }

func (l lockedStore) Apply(ctx context.Context, batch []store.Request) error {
	if batch[0].Charges[0].Key != l.key {
		return l.Store.Apply(ctx, batch)
	}
	<-ctx.Done()
	return batches.FailAll(batch, ctx.Err())
}
