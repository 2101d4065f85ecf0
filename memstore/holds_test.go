package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// request applies a request with one charge and returns its answer.
func request(t testing.TB, st store.Store, r store.Request, c store.Charge) rule.Answer {
	t.Helper()
	r.Charges, r.Answers = []store.Charge{c}, make([]rule.Answer, 1)
	if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

// hold holds units of a key under an ID.
func hold(t testing.TB, st store.Store, limit *store.Limit, key string, id rule.ID, units int64) rule.Answer {
	t.Helper()
	return request(t, st, store.Request{ID: id, Hold: true}, store.Charge{Limit: limit, Key: key, Cost: units})
}

// holdingLimits returns a limit for every form of page, on which reservations hold their units for ten minutes.
func holdingLimits(t testing.TB, quota int64) (limits []*store.Limit) {
	for i, l := range limitsOfAllForms(quota) {
		if l.Lease || l.CountRefused {
			continue
		}
		r := rule.Limit{Quota: l.Quota, Window: rule.Micros(l.Window.Microseconds()), Algorithm: l.Algorithm, Overlap: l.Overlap,
			Anchor: l.Anchor, Segments: l.Segments, Hold: 10 * minute}
		limits = append(limits, boundTo(t, fmt.Sprint("form", i), r))
	}
	return limits
}

// What is held of a key is not forgotten with the key when a full store evicts it, and ends when it should.
func TestEvictedKeysStayHeld(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range holdingLimits(t, 5) {
		clock := storetest.NewClock(startMicros)
		st := openTiny(t, memstore.Options{Now: clock.Now})
		quota := limit.Rule().Quota
		if a := hold(t, st, limit, "key", 1, quota); !a.Allowed {
			t.Fatalf("%s: %+v", limit.Name(), a)
		}
		for i := range 10_000 {
			request(t, st, store.Request{}, store.Charge{Limit: limit, Key: fmt.Sprint(i), Cost: quota/5 + quota/5*int64(i%3)})
		}
		if st.Stats().Evictions == 0 {
			t.Fatal("the store was never full: the test proves nothing")
		}
		clock.Advance(10*minute - 1)
		if a := request(t, st, store.Request{}, store.Charge{Limit: limit, Key: "key", Cost: 1}); a.Allowed || a.Flags&rule.Held == 0 {
			t.Errorf("%s: a unit was taken while all were held: %+v", limit.Name(), a)
		}
		clock.Advance(1)
		if a := request(t, st, store.Request{}, store.Charge{Limit: limit, Key: "key", Cost: quota}); !a.Allowed {
			t.Errorf("%s: refused after the hold ended: %+v", limit.Name(), a)
		}
	}
}

// A table grows and shrinks while units of its keys are held, used and settled: all answers are the rule's.
func TestHoldsWhilePagesChange(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range holdingLimits(t, 10) {
		clock := storetest.NewClock(startMicros)
		st, reference := open(t, memstore.Options{Now: clock.Now}), storetest.NewReference(clock)
		random := rand.New(rand.NewPCG(32, 0))
		unit := limit.Rule().Quota / 10
		ids := map[string][]rule.ID{}
		for i := range 30_000 {
			key := fmt.Sprint(random.IntN(1 + i/6))
			r := store.Request{ID: rule.ID(i + 1), Hold: random.IntN(3) == 0}
			c := store.Charge{Limit: limit, Key: key, Cost: unit * (1 + random.Int64N(3))}
			switch of := ids[key]; {
			case r.Hold:
				ids[key] = append(of, r.ID)
			case len(of) > 0 && random.IntN(2) == 0:
				r.Op, r.ID, c.Used = []rule.Op{rule.Settle, rule.Renew}[random.IntN(2)], of[random.IntN(len(of))], unit*random.Int64N(4)
			case random.IntN(50) == 0:
				r.Op = rule.Reset
			}
			if got, want := request(t, st, r, c), request(t, reference, r, c); got != want {
				t.Fatalf("%s: request %d, %+v of %+v:\n got %+v\nwant %+v", limit.Name(), i, r, c, got, want)
			}
			clock.Advance(rule.Micros(random.Int64N(10_000)))
		}
	}
}

// A restart keeps what is held, also of keys without a slot.
func TestRestartKeepsHolds(t *testing.T) {
	memstore.Alone(t)
	for i, limit := range slices.Concat(holdingLimits(t, 10), holdingLimits(t, 10)) {
		clock := storetest.NewClock(startMicros)
		st := openFolder(t, memstore.Options{Now: clock.Now, MaxBytes: 256 << 10})
		st.SetCapacity(20_000)
		unit, way := limit.Rule().Quota/10, ways[i/len(holdingLimits(t, 10))]
		for i := range 500 {
			hold(t, st, limit, fmt.Sprint(i), rule.ID(i+1), unit*int64(1+i%10))
		}
		for i := range 3_000 {
			request(t, st, store.Request{}, store.Charge{Limit: limit, Key: fmt.Sprint("flood", i), Cost: unit})
		}
		clock.Advance(5 * minute)
		hold(t, st, limit, "late", 1, 10*unit)
		clock.Advance(4 * minute)
		restored := restart(t, st, way, memstore.Options{Now: clock.Now})
		for _, after := range []rule.Micros{0, minute - 1, 1, 4*minute - 1, 1} {
			clock.Advance(after)
			for i := range 501 {
				c := store.Charge{Limit: limit, Key: fmt.Sprint(i), Cost: 5 * unit}
				if i == 500 {
					c.Key = "late"
				}
				got, want := request(t, restored, store.Request{Op: rule.Peek}, c), request(t, st, store.Request{Op: rule.Peek}, c)
				if got != want {
					t.Fatalf("%s, key %s: got %+v, want %+v", limit.Name(), c.Key, got, want)
				}
			}
		}
	}
}

// Holds take at most a quarter of the memory. Beyond that nothing more is held, until holds end.
func TestHoldsAreBounded(t *testing.T) {
	memstore.Alone(t)
	const maxBytes = 1 << 20
	for _, refuse := range []bool{false, true} {
		clock := storetest.NewClock(startMicros)
		st := open(t, memstore.Options{MaxBytes: maxBytes, Now: clock.Now, RefuseWhenFull: refuse})
		limit := holdingLimits(t, 100)[2]
		most := 0
		for ; ; most++ {
			a := hold(t, st, limit, fmt.Sprint(most%1000), rule.ID(most+1), 1)
			if a.Allowed {
				continue
			}
			if a.Flags != rule.Held|rule.HoldsFull || a.RetryAfter <= 0 || a.RetryAfter > minute || a.Granted != 0 {
				t.Errorf("without memory: %+v", a)
			}
			break
		}
		if most < maxBytes/4/100 || most > maxBytes/4/32 {
			t.Errorf("%d were held in %d bytes", most, maxBytes)
		}
		if used, room := st.Capacity(); used > room {
			t.Errorf("%d bytes in use, want at most %d", used, room)
		}
		if a := hold(t, st, limit, "0", 1, 1); !a.Allowed {
			t.Errorf("a hold could not be renewed without memory: %+v", a)
		}
		if a := request(t, st, store.Request{Op: rule.Settle, ID: 2}, store.Charge{Limit: limit, Key: "1", Cost: 1, Used: 1}); a.Flags != 0 {
			t.Errorf("a hold could not be settled without memory: %+v", a)
		}
		clock.Advance(10 * minute)
		for i := range most / 2 {
			if a := hold(t, st, limit, fmt.Sprint("later", i%500), rule.ID(most+10+i), 1); !a.Allowed {
				t.Fatalf("request %d to hold after all holds ended: %+v", i, a)
			}
		}
	}
}

// A request has read its key's state when the first units of a key of its page are held. It must not use them.
func TestUnitsAreHeldDuringADecision(t *testing.T) {
	for _, limit := range holdingLimits(t, 10) {
		clock := storetest.NewClock(startMicros)
		var armed atomic.Bool
		reading, goOn := make(chan struct{}), make(chan struct{})
		st := open(t, memstore.Options{Now: func() rule.Micros {
			if armed.CompareAndSwap(true, false) {
				close(reading)
				<-goOn
			}
			return clock.Now()
		}})
		unit := limit.Rule().Quota / 10
		for range 2 {
			request(t, st, store.Request{}, store.Charge{Limit: limit, Key: "key", Cost: unit})
		}
		armed.Store(true)
		late := make(chan bool)
		go func() {
			allowed, _, _, _, _, _, err := st.TakeSingle(t.Context(), limit, "key", unit)
			if err != nil {
				t.Error(err)
			}
			late <- allowed
		}()
		<-reading
		if a := hold(t, st, limit, "key", 1, 8*unit); !a.Allowed {
			t.Errorf("%s: what is left was not held: %+v", limit.Name(), a)
		}
		close(goOn)
		if <-late {
			t.Errorf("%s: a unit was used that is held", limit.Name())
		}
	}
}

// What is held of the keys of a limit moves along when another limit takes its pages.
func TestHoldsWhilePagesAreMerged(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range holdingLimits(t, 5) {
		clock := storetest.NewClock(startMicros)
		st := open(t, memstore.Options{MaxBytes: 1 << 20, Now: clock.Now})
		quota := limit.Rule().Quota
		for i := range 300 {
			hold(t, st, limit, fmt.Sprint("held", i), 1, quota)
		}
		for i := 0; st.Stats().Evictions < 100; i++ {
			request(t, st, store.Request{}, store.Charge{Limit: limit, Key: fmt.Sprint(i), Cost: 1})
		}
		before := bytesOf(st, limit.Name())
		flood := boundTo(t, "flood", rule.Limit{Quota: 100, Window: minute})
		for i := range 20_000 {
			request(t, st, store.Request{}, store.Charge{Limit: flood, Key: fmt.Sprint(i), Cost: 1})
		}
		if after := bytesOf(st, limit.Name()); after > before*19/20 {
			t.Fatalf("%s: the pages were not merged: %d bytes, then %d", limit.Name(), before, after)
		}
		for i := range 300 {
			if a := request(t, st, store.Request{}, store.Charge{Limit: limit, Key: fmt.Sprint("held", i), Cost: 1}); a.Allowed || a.Flags&rule.Held == 0 {
				t.Fatalf("%s: what was held of key %d is lost: %+v", limit.Name(), i, a)
			}
		}
	}
}

// Lines of the slab move along with live keys when a page is marked, and those of expired keys are returned.
func TestMarkedPagesKeepNoLines(t *testing.T) {
	memstore.Alone(t)
	const keys = 2_000
	clock := storetest.NewClock(startMicros)
	st := open(t, memstore.Options{Now: clock.Now})
	limit := boundTo(t, "busy", rule.Limit{Quota: 1_000, Window: minute, Hold: minute})
	use := func(first, end int, units int64) {
		for i := first; i < end; i++ {
			request(t, st, store.Request{}, store.Charge{Limit: limit, Key: fmt.Sprint(i), Cost: units})
		}
	}
	for _, first := range []int{0, keys / 2} {
		clock.Advance(2 * minute)
		for range 20 {
			use(first, first+keys/2, 1)
			clock.Advance(minute / 60)
		}
	}
	if n := memstore.SlabBytes(st, limit); n < 64*keys/2 {
		t.Fatalf("%d bytes for lines of %d keys: the test proves nothing", n, keys)
	}
	for i := range 100 {
		hold(t, st, limit, fmt.Sprint("held", i), 1, 1)
	}
	for i := keys / 2; i < keys; i++ {
		c := store.Charge{Limit: limit, Key: fmt.Sprint(i), Cost: 1}
		if a := request(t, st, store.Request{Op: rule.Peek}, c); a.Remaining != 980 {
			t.Fatalf("key %d has %d units left, want 980", i, a.Remaining)
		}
	}
	clock.Advance(2 * minute)
	use(0, keys, 1)
	if n := memstore.SlabBytes(st, limit); n > 40<<10 {
		t.Errorf("%d bytes for lines when no key is busy", n)
	}
}

// bytesOf returns how many bytes a limit takes.
func bytesOf(st *memstore.Store, name string) int64 {
	for _, l := range st.Stats().Limits {
		if l.Name == name {
			return l.Bytes
		}
	}
	return 0
}

// Requests that decide without a lock never use what is held, not even while the first unit of a page is held: what was used and what is
// held is at most the quota.
func TestHoldsAndTakesConcurrently(t *testing.T) {
	const quota, rounds, workers = 40, 50, 4
	for _, limit := range holdingLimits(t, quota) {
		unit := limit.Rule().Quota / quota
		clock := storetest.NewClock(startMicros)
		for round := range rounds {
			st := open(t, memstore.Options{Now: clock.Now, MaxBytes: 256 << 10})
			request(t, st, store.Request{}, store.Charge{Limit: limit, Key: "key", Cost: unit})
			var used, held atomic.Int64
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for i := range quota / 2 {
						if w == 0 && i >= 5 {
							if a := hold(t, st, limit, "key", rule.ID(i), unit); a.Allowed {
								held.Add(1)
							}
							continue
						}
						allowed, _, _, _, _, _, err := st.TakeSingle(t.Context(), limit, "key", unit)
						if err != nil {
							t.Error(err)
						}
						if allowed {
							used.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if sum := 1 + used.Load() + held.Load(); sum != quota {
				t.Fatalf("%s, round %d: 1 and %d were used and %d held of %d", limit.Name(), round, used.Load(), held.Load(), quota)
			}
		}
	}
}

// A limit of which something is held makes no space for another one, and nothing is left of it when the last hold has ended.
func TestHeldLimitStays(t *testing.T) {
	clock := storetest.NewClock(startMicros)
	st := open(t, memstore.Options{MaxLimits: 1, Now: clock.Now})
	limits := holdingLimits(t, 5)
	hold(t, st, limits[0], "key", 1, 5)
	clock.Advance(10*minute - 1)
	other := store.Request{Charges: []store.Charge{{Limit: limits[1], Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1)}
	if err := st.Apply(t.Context(), []store.Request{other}); err == nil {
		t.Error("a limit was dropped although units of a key are held")
	}
	if a := request(t, st, store.Request{}, store.Charge{Limit: limits[0], Key: "key", Cost: 1}); a.Allowed {
		t.Errorf("a unit was taken while all were held: %+v", a)
	}
	clock.Advance(2 * minute)
	if err := st.Apply(t.Context(), []store.Request{other}); err != nil {
		t.Errorf("after the hold ended: %v", err)
	}
	if n := memstore.HeldBytes(st); n != 0 {
		t.Errorf("holds take %d bytes after the last one ended", n)
	}
}

// A call is remembered whatever the limit is by then, and as many as before are remembered at an address.
func TestCallIsFoundUnderAnotherLimit(t *testing.T) {
	clock := storetest.NewClock(startMicros)
	st := open(t, memstore.Options{Now: clock.Now})
	plain := boundTo(t, "calls", rule.Limit{Quota: 1_000, Window: minute})
	larger := boundTo(t, "calls", rule.Limit{Quota: 5_000, Window: minute, Hold: minute})
	once := func(limit *store.Limit, id rule.ID) rule.Answer {
		return request(t, st, store.Request{ID: id, Once: true}, store.Charge{Limit: limit, Key: "key", Cost: 3})
	}
	if a := once(plain, 1); !a.Allowed || a.Flags != 0 || a.Remaining != 997 {
		t.Errorf("a call: %+v", a)
	}
	if a := once(larger, 1); !a.Allowed || a.Flags != rule.Repeated || a.Remaining != 4_997 || a.Granted != 3 {
		t.Errorf("its repeat under another quota: %+v", a)
	}
	cancel := request(t, st, store.Request{Op: rule.Settle, ID: 1, Once: true}, store.Charge{Limit: larger, Key: "key"})
	if cancel.Granted != 3 || cancel.Remaining != 5_000 {
		t.Errorf("its cancellation: %+v", cancel)
	}
	if a := once(plain, 1); a.Allowed || a.Flags != rule.Repeated || a.RetryAfter != rule.Never && a.Remaining != 1_000 {
		t.Errorf("a call that was cancelled: %+v", a)
	}
	most := int(plain.Rule().Settlements())
	var flags []rule.Flags
	for i := range most + 10 {
		r := store.Request{ID: rule.ID(10 + i), Once: true}
		flags = append(flags, request(t, st, r, store.Charge{Limit: plain, Key: "many"}).Flags)
	}
	if full := slices.Index(flags, rule.NotOnce); full != most {
		t.Errorf("%d calls of one key are remembered, want %d", full, most)
	}
}

// A call that is cancelled while a checkpoint records it stays cancelled after a restart: what the checkpoint has read is not recorded behind
// what came later.
func TestCheckpointDoesNotUndoACancellation(t *testing.T) {
	limit := boundTo(t, "calls", rule.Limit{Quota: 10, Window: 60 * minute})
	charge := store.Charge{Limit: limit, Key: "key", Cost: 3}
	var st *memstore.Store
	cancelled := make(chan struct{})
	read := sync.OnceFunc(func() {
		go func() {
			defer close(cancelled)
			request(t, st, store.Request{Op: rule.Settle, ID: 1, Once: true}, store.Charge{Limit: limit, Key: "key"})
		}()
		for range 100_000 { // it waits until the checkpoint has recorded what it has read, so it cannot be waited for
			runtime.Gosched()
			select {
			case <-cancelled:
				return
			default:
			}
		}
	})
	st = openFolder(t, memstore.WithPause(memstore.Options{}, func(point string) {
		if point == "settlement read" {
			read()
		}
	}))
	if a := request(t, st, store.Request{ID: 1, Once: true}, charge); !a.Allowed {
		t.Fatalf("the call: %+v", a)
	}
	check(t, st.Checkpoint())
	<-cancelled
	restored := restart(t, st, "records", memstore.Options{})
	if a := request(t, restored, store.Request{ID: 1, Once: true}, charge); a.Allowed || a.Flags != rule.Repeated || a.Remaining != 10 {
		t.Errorf("the cancelled call after a restart: %+v", a)
	}
}

// The settlement of a call that holds units charges what was used, also if the key has no slot because the process was restarted.
func TestSettlementOfACallWithoutASlot(t *testing.T) {
	memstore.Alone(t)
	for i, limit := range slices.Concat(holdingLimits(t, 10), holdingLimits(t, 10)) {
		clock := storetest.NewClock(startMicros)
		st := openFolder(t, memstore.Options{Now: clock.Now})
		unit := limit.Rule().Quota / 10
		c := store.Charge{Limit: limit, Key: "k", Cost: 4 * unit}
		if a := request(t, st, store.Request{ID: 7, Hold: true, Once: true}, c); !a.Allowed {
			t.Fatalf("%s: %+v", limit.Name(), a)
		}
		restored := restart(t, st, ways[i/len(holdingLimits(t, 10))], memstore.Options{Now: clock.Now})
		c.Used = 3 * unit
		if a := request(t, restored, store.Request{Op: rule.Settle, ID: 7}, c); a.Granted != unit || a.Remaining != 7*unit {
			t.Errorf("%s: settled: %+v, want %d returned and %d left", limit.Name(), a, unit, 7*unit)
		}
		if a := request(t, restored, store.Request{Op: rule.Settle, ID: 7}, c); a.Granted != unit || a.Remaining != 7*unit || a.Flags != rule.Repeated {
			t.Errorf("%s: settled again: %+v, want nothing changed", limit.Name(), a)
		}
	}
}

// A settlement takes the place of its call among the IDs that are remembered.
func TestSettledCallsAreCountedOnce(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(startMicros)
	st := openTiny(t, memstore.Options{Now: clock.Now, MaxBytes: 64 << 20})
	limit := boundTo(t, "once", rule.Limit{Quota: 100, Window: minute})
	most := rule.ID(limit.Rule().Settlements())
	for id := rule.ID(1); id <= most; id++ {
		c := store.Charge{Limit: limit, Key: "k", Cost: 1}
		a := request(t, st, store.Request{ID: id, Once: true}, c)
		if !a.Allowed || a.Flags != 0 {
			t.Fatalf("call %d of %d: %+v", id, most, a)
		}
		if c.At = a.At; request(t, st, store.Request{Op: rule.Settle, ID: id}, c).Flags != 0 {
			t.Fatalf("call %d of %d was not settled", id, most)
		}
	}
}
