package memstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// ways are the ways in which a store finds what another one has left: the records of its requests, or a checkpoint.
var ways = []string{"records", "checkpoint"}

// folders are the folders of the stores that openFolder returned.
var folders sync.Map

// openFolder opens a store in a folder of its own.
func openFolder(t testing.TB, opts memstore.Options) *memstore.Store {
	t.Helper()
	dir := t.TempDir()
	st := testkit.Must(memstore.Open(dir, opts))(t)
	t.Cleanup(func() { check(t, st.Close()) })
	folders.Store(st, dir)
	return st
}

// restart returns a store that continues from what another one has recorded so far, as if that had died now.
func restart(t testing.TB, st *memstore.Store, way string, opts memstore.Options) *memstore.Store {
	t.Helper()
	if way == "checkpoint" {
		check(t, st.Checkpoint())
	}
	dir, _ := folders.Load(st)
	copied := filepath.Join(t.TempDir(), "copy")
	memstore.WithoutCheckpoint(st, func() { check(t, os.CopyFS(copied, os.DirFS(dir.(string)))) })
	next := testkit.Must(memstore.Open(copied, opts))(t)
	t.Cleanup(func() { check(t, next.Close()) })
	folders.Store(next, copied)
	return next
}

// A restored store decides as the saved one would have.
func TestRestartForgetsNothing(t *testing.T) {
	memstore.Alone(t)
	for i, limit := range slices.Concat(limitsOfAllForms(5), limitsOfAllForms(5)) {
		way := ways[i/len(limitsOfAllForms(5))]
		t.Run(limit.String()+" "+way, func(t *testing.T) {
			clock := storetest.NewClock(1_767_225_600_000_000)
			store := openFolder(t, memstore.Options{Now: clock.Now})
			before := newLimiter(t, store, limit)
			random := rand.New(rand.NewPCG(1, 0))
			unit := max(1, limit.Quota/5)
			for range 20_000 {
				allow(t, before, fmt.Sprint(random.IntN(1500)), unit*random.Int64N(3))
				clock.Advance(rule.Micros(random.Int64N(max(2, limit.Window.Microseconds()/20_000))))
			}
			restored := restart(t, store, way, memstore.Options{Now: clock.Now})
			clock.Advance(rule.Micros(limit.Window.Microseconds()) / 3)
			after := newLimiter(t, restored, limit)
			refused := 0
			for i := range 5000 {
				want, got := allow(t, before, fmt.Sprint(i), 2*unit), allow(t, after, fmt.Sprint(i), 2*unit)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("key %d: %+v, want %+v", i, got, want)
				}
				if !got.Allowed {
					refused++
				}
			}
			if limit.Window > time.Second && refused == 0 {
				t.Error("nothing was refused: the test proves nothing")
			}
		})
	}
}

// Keys that a full store had to forget must not get their quota back through a restart, in a store of any size.
func TestRestartKeepsForgottenKeys(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range limitsOfAllForms(3) {
		for way, size := range []int64{256 << 10, 64 << 20, 256 << 10, 64 << 20} {
			clock := storetest.NewClock(1_767_225_600_000_000)
			store := openFolder(t, memstore.Options{Now: clock.Now, MaxBytes: 256 << 10})
			store.SetCapacity(20_000)
			limiter := newLimiter(t, store, limit)
			used := map[int]bool{} // keys that used up their quota; others may have been refused at once, because they look like one that did
			for i := range 9000 {
				for allow(t, limiter, fmt.Sprint(i), max(1, limit.Quota/3)).Allowed {
					used[i] = true
				}
			}
			restored := restart(t, store, ways[way/2], memstore.Options{MaxBytes: size, Now: clock.Now})
			after := newLimiter(t, restored, limit)
			for i := range used {
				// Some keys may have their last unit left, which the floor had refused them; none has three.
				if allow(t, after, fmt.Sprint(i), limit.Quota).Allowed {
					t.Fatalf("%s: key %d has its quota back in a store of %d, from %s", limit, i, size, ways[way/2])
				}
			}
		}
	}
}

func TestRestartInLessSpace(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(1_767_225_600_000_000)
	store := openFolder(t, memstore.Options{Now: clock.Now})
	limiter := newLimiter(t, store, sliding(1, time.Minute))
	for i := range 20_000 {
		allow(t, limiter, fmt.Sprint(i), 1)
	}
	for _, way := range ways {
		small := restart(t, store, way, memstore.Options{MaxBytes: 256 << 10, Now: clock.Now})
		after := newLimiter(t, small, sliding(1, time.Minute))
		for i := range 20_000 {
			if allow(t, after, fmt.Sprint(i), 1).Allowed {
				t.Fatalf("key %d was admitted again", i)
			}
		}
	}
}

// With the real clock too, a restart forgets nothing: times are saved as wall times.
func TestRestartByTheRealClock(t *testing.T) {
	store := openFolder(t, memstore.Options{})
	limiter := newLimiter(t, store, sliding(2, time.Hour))
	allow(t, limiter, "key", 2)
	restored := restart(t, store, "records", memstore.Options{})
	if d := allow(t, newLimiter(t, restored, sliding(2, time.Hour)), "key", 1); d.Allowed {
		t.Errorf("forgotten: got %+v, want refused", d)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// useEveryKind creates state of every kind in a store, including settlements.
func useEveryKind(t testing.TB, st store.Store) {
	t.Helper()
	for _, limit := range everyLimit(t, 5) {
		charge := store.Charge{Limit: limit, Key: "key", Cost: 1}
		for id := range rule.ID(3) {
			decide(t, st, rule.Take, id+1, charge)
		}
		decide(t, st, rule.Settle, 1, charge)
	}
}

// Slots, calendars, buckets and settlements survive a restart.
func TestRestartOfEveryKind(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) { testRestartOfEveryKind(t, way) })
	}
}

func testRestartOfEveryKind(t *testing.T, way string) {
	clock := storetest.NewClock(1_767_225_600_000_000)
	st := openFolder(t, memstore.Options{Now: clock.Now})
	var charges []store.Charge
	for _, limit := range everyLimit(t, 5) {
		charges = append(charges, store.Charge{Limit: limit, Key: "key", Cost: 1, Used: 3})
	}
	for id := range rule.ID(3) {
		for i, a := range decide(t, st, rule.Take, id+1, charges...) {
			charges[i].At = a.At
		}
		clock.Advance(1_000_001)
	}
	settled := decide(t, st, rule.Settle, 2, charges...)
	clock.Advance(1_000_001)
	restored := restart(t, st, way, memstore.Options{Now: clock.Now})
	if n := restored.Stats().Settlements; n != 1 {
		t.Errorf("got %d settlements after a restart", n)
	}
	for _, step := range []struct {
		op rule.Op
		id rule.ID
	}{{rule.Settle, 2}, {rule.Renew, 2}, {rule.Renew, 3}, {rule.Peek, 0}, {rule.Settle, 1}, {rule.Take, 4}, {rule.Peek, 0}} {
		want, got := decide(t, st, step.op, step.id, charges...), decide(t, restored, step.op, step.id, charges...)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v %d after a restart:\n got %+v\nwant %+v", step.op, step.id, got, want)
		}
		if step.op == rule.Settle && step.id == 2 && (got[0].Granted != settled[0].Granted || got[0].Flags&rule.Repeated == 0) {
			t.Errorf("the settlement after a restart: %+v, before it: %+v", got[0], settled[0])
		}
		clock.Advance(500_001)
	}
}

// A generation that was full before a restart is full after it.
func TestRestartOfFullGeneration(t *testing.T) {
	clock := storetest.NewClock(1_767_225_600_000_000)
	st := openFolder(t, memstore.Options{Now: clock.Now})
	charge := store.Charge{Limit: everyLimit(t, 5)[0], Key: "key", Cost: 1}
	for id := range rule.ID(1000) {
		decide(t, st, rule.Settle, id, charge)
	}
	for _, way := range ways {
		restored := restart(t, st, way, memstore.Options{Now: clock.Now})
		if a := decide(t, restored, rule.Settle, 1000, charge)[0]; a.Flags&rule.Unsettled == 0 {
			t.Errorf("%s: one settlement too many after a restart: %+v", way, a)
		}
	}
	clock.Advance(2 * rule.LongMemory)
	for _, way := range ways {
		if n := restart(t, st, way, memstore.Options{Now: clock.Now}).Stats().Settlements; n != 0 {
			t.Errorf("%s: %d expired settlements were remembered", way, n)
		}
	}
}

// A restart keeps the small form of states, whatever the time.
func TestRestartKeepsTheForm(t *testing.T) {
	memstore.Alone(t)
	const keys = 14_000
	for _, algorithm := range []rule.Algorithm{slidegate.SlidingWindow, slidegate.FixedWindow} {
		limit := slidegate.Limit{Quota: 5, Window: 24 * time.Hour, Algorithm: algorithm}
		st := openFolder(t, memstore.Options{})
		l := newLimiter(t, st, limit)
		for i := range keys {
			allow(t, l, fmt.Sprint(i), 1)
		}
		for range 2 {
			for _, way := range ways {
				restored := restart(t, st, way, memstore.Options{})
				after := newLimiter(t, restored, limit)
				for i := range keys {
					allow(t, after, fmt.Sprint(i), 1)
				}
				if memstore.InSecondForm(restored, "sliding-window") || memstore.InSecondForm(restored, "fixed-window") {
					t.Errorf("%s: after a restart from %s, states take twice the space", limit, way)
				}
			}
		}
	}
}

// With RefuseWhenFull, a restart in the same space gives no key its quota back, even if some lose their slots.
func TestRestartOfAFullStore(t *testing.T) {
	memstore.Alone(t)
	opts := memstore.Options{MaxBytes: 1 << 20, RefuseWhenFull: true}
	limit := slidegate.Limit{Quota: 50, Window: 24 * time.Hour, Algorithm: slidegate.FixedWindow}
	st := openFolder(t, opts)
	l := newLimiter(t, st, limit)
	full := 0
	for ; ; full++ {
		if _, err := l.AllowN(t.Context(), fmt.Sprint(full), 50); errors.Is(err, memstore.ErrFull) {
			break
		}
	}
	opts.MaxBytes = 512 << 10
	for _, way := range ways {
		after := newLimiter(t, restart(t, st, way, opts), limit)
		for i := range full {
			if d, err := after.Allow(t.Context(), fmt.Sprint(i)); err == nil && d.Allowed {
				t.Fatalf("from %s: key %d of %d has its quota back", way, i, full)
			}
		}
	}
}

// Limits whose keys have all expired do not stay in the folder for ever.
func TestRestartsForgetOldLimits(t *testing.T) {
	clock := storetest.NewClock(startMicros)
	opts := memstore.Options{Now: clock.Now}
	st := openFolder(t, opts)
	for round := range 4 {
		for i := range 10 {
			allow(t, newLimiter(t, st, slidegate.Limit{Name: fmt.Sprint(round, i), Quota: 1, Window: time.Second}), "key", 1)
		}
		clock.Advance(10_000_000)
		st = restart(t, restart(t, st, "checkpoint", opts), "checkpoint", opts)
		if n := len(st.Stats().Limits); n > 10 {
			t.Errorf("after %d restarts there are %d limits", round+1, n)
		}
	}
}

// Beyond so many quotas of a limit that they have no tags of their own, takes over several limits are recorded by their outcome.
func TestRestartWithManyQuotas(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(1_767_225_600_000_000)
	st := openFolder(t, memstore.Options{Now: clock.Now})
	limit := func(quota int64) slidegate.Limit {
		return slidegate.Limit{Name: "x", Quota: quota, Window: time.Hour, Algorithm: slidegate.SlidingLog}
	}
	for quota := int64(1); quota <= 1100; quota++ {
		allow(t, newLimiter(t, st, limit(quota)), "somebody", 0)
	}
	limits := []slidegate.Limit{limit(2000), {Name: "y", Quota: 1000, Window: time.Hour, Algorithm: slidegate.FixedWindow}}
	limiter := newLimiter(t, st, limits...)
	for range 15 {
		if !allow(t, limiter, "key", 1).Allowed {
			t.Fatal("a unit within the quota was refused")
		}
	}
	for _, way := range ways {
		after := newLimiter(t, restart(t, st, way, memstore.Options{Now: clock.Now}), limits[:1]...)
		if d := testkit.Must(after.Peek(t.Context(), "key", 1))(t); d.Remaining != 1985 {
			t.Errorf("%s: %d of 2000 remain after 15 units", way, d.Remaining)
		}
	}
}

// A key that was reset stays free through a restart, however many others are reset that nothing is remembered of.
func TestRestartAfterManyResets(t *testing.T) {
	memstore.Alone(t)
	opts := memstore.Options{MaxBytes: 256 << 10}
	limit := slidegate.Limit{Quota: 10, Window: 24 * time.Hour, Algorithm: slidegate.FixedWindow}
	st := openFolder(t, opts)
	st.SetCapacity(20_000)
	limiter := newLimiter(t, st, limit)
	for i := range 9000 {
		allow(t, limiter, fmt.Sprint(i), 10)
	}
	var reset []string
	for i := 0; len(reset) < 20; i++ {
		if d := testkit.Must(limiter.Peek(t.Context(), fmt.Sprint(i), 1))(t); d.Flags&rule.Inherited != 0 && !d.Allowed {
			reset = append(reset, fmt.Sprint(i))
		}
	}
	for _, key := range reset {
		check(t, limiter.Reset(t.Context(), key))
	}
	for i := range 9000 {
		check(t, limiter.Reset(t.Context(), fmt.Sprint("other", i)))
	}
	for _, way := range ways {
		after := newLimiter(t, restart(t, st, way, opts), limit)
		for _, key := range reset {
			if d := testkit.Must(after.Peek(t.Context(), key, 10))(t); !d.Allowed {
				t.Errorf("%s: key %s, which was reset, has %d left", way, key, d.Remaining)
			}
		}
	}
}

// While a decision is recorded, nobody else is answered about its key: it was claimed before, and is published afterwards.
func TestNobodyIsAnsweredWhileADecisionIsRecorded(t *testing.T) {
	for i, limit := range append(everyLimit(t, 5), everyLimit(t, 5)...) {
		var st *memstore.Store
		var other sync.WaitGroup
		var stage atomic.Int32
		stage.Store(-1)
		var answered atomic.Bool
		charge := store.Charge{Limit: limit, Key: "key", Cost: 1}
		expectNoAnswer := func(point string) {
			for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; { // an answer that does not wait comes within microseconds
				if runtime.Gosched(); answered.Load() {
					t.Errorf("%s: another request was answered when the first one was %s, and not published", limit.Name(), point)
					return
				}
			}
		}
		st = openFolder(t, memstore.WithPause(memstore.Options{}, func(point string) {
			switch {
			case point == "claimed" && stage.CompareAndSwap(0, 1):
				other.Go(func() {
					decide(t, st, rule.Take, 0, charge)
					answered.Store(true)
				})
				expectNoAnswer(point)
				stage.Store(2)
			case point == "recorded" && stage.CompareAndSwap(2, 3):
				expectNoAnswer(point)
			}
		}))
		if i%2 == 0 { // the key is not new; everyLimit returns an odd number
			decide(t, st, rule.Take, 0, charge)
		}
		stage.Store(0)
		decide(t, st, rule.Take, 0, charge)
		other.Wait()
		if !answered.Load() || stage.Load() != 3 {
			t.Errorf("%s: the requests were not recorded, or the second was not answered", limit.Name())
		}
	}
}

// A checkpoint must not find an ID before what the call did is recorded: a repeated call would be admitted and charge nothing after a death.
func TestCallIsRecordedBeforeItIsRemembered(t *testing.T) {
	var st *memstore.Store
	remembered := make(chan int64, 10)
	opts := memstore.WithPause(memstore.Options{}, func(point string) {
		if point == "recorded" {
			remembered <- st.Stats().Settlements
		}
	})
	st = openFolder(t, opts)
	decide(t, st, rule.Settle, 1, store.Charge{Limit: everyLimit(t, 5)[0], Key: "key", Cost: 1})
	if n := <-remembered; n != 0 {
		t.Error("a call was remembered before it was recorded")
	}
	if n := st.Stats().Settlements; n != 1 {
		t.Errorf("%d calls are remembered after one", n)
	}
}
