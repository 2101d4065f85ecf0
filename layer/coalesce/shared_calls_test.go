package coalesce_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/coalesce"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// slow takes a millisecond for a call, however much is in it.
func slow(context.Context, []store.Request) error {
	time.Sleep(time.Millisecond)
	return nil
}

// 256 callers ask at once for one key with a quota of 100, of a store that takes a millisecond for a call.
func TestManyShareAFewCalls(t *testing.T) {
	for _, c := range []struct {
		opts  coalesce.Options
		sizes []int // of the calls, in their order
		took  time.Duration
		most  int
	}{
		// One is sent at once, all others when it is back.
		{coalesce.Options{InFlight: 1}, []int{1, 255}, 2 * time.Millisecond, 1},
		{coalesce.Options{}, []int{1, 1, 1, 1, 252}, 2 * time.Millisecond, 4},
		{coalesce.Options{InFlight: 1, MaxBatch: 100}, []int{1, 100, 100, 55}, 4 * time.Millisecond, 1},
		{coalesce.Options{InFlight: 2, MaxBatch: 127}, []int{1, 1, 127, 127}, 2 * time.Millisecond, 2},
	} {
		t.Run(fmt.Sprintf("%+v", c.opts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newRecorder(t, slow)
				store, limit := newStore(t, inner, c.opts), bind(t, slidegate.PerHour(100))
				start := time.Now()
				var all []*asking
				for range 256 {
					all = append(all, ask(t.Context(), store, limit, "hot"))
				}
				for _, a := range all {
					<-a.done
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("it took %v, not %v", took, c.took)
				}
				var sizes []int
				for _, keys := range inner.seen() {
					sizes = append(sizes, len(keys))
				}
				if !reflect.DeepEqual(sizes, c.sizes) || inner.most != c.most {
					t.Errorf("calls of %v, %d at once; want %v, %d", sizes, inner.most, c.sizes, c.most)
				}
				expectHundred(t, all, c.opts.InFlight == 1)
			})
		})
	}
}

// expectHundred: of a quota of 100 exactly 100 are admitted; where calls come one after the other, the first 100.
func expectHundred(t *testing.T, all []*asking, inOrder bool) {
	t.Helper()
	admitted := map[int64]bool{} // by what was left
	for i, a := range all {
		if a.err != nil {
			t.Fatalf("caller %d: %v", i, a.err)
		}
		if a.answer.Allowed {
			admitted[a.answer.Remaining] = true
		}
		if inOrder && (a.answer.Allowed != (i < 100) || a.answer.Remaining != max(0, int64(99-i))) {
			t.Fatalf("caller %d was answered %+v", i, a.answer)
		}
	}
	if len(admitted) != 100 || !admitted[0] || !admitted[99] {
		t.Errorf("%d were admitted, not 100", len(admitted))
	}
}

// A lone caller's request goes to the store as it is: its memory, its context, its goroutine, and no time besides.
func TestLoneCallerIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type own struct{}
		ctx := context.WithValue(t.Context(), own{}, "mine")
		limit := bind(t, slidegate.PerHour(100))
		batch := []store.Request{take(limit, "a", 1), take(limit, "b", 1)}
		inner := newRecorder(t, func(got context.Context, sent []store.Request) error {
			if len(sent) != 2 || &sent[0] != &batch[0] || got != ctx {
				t.Errorf("sent a copy, or with another context")
			}
			return slow(got, sent)
		})
		store := newStore(t, inner, coalesce.Options{InFlight: 1})
		start := time.Now()
		for range 3 {
			if err := store.Apply(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 3*time.Millisecond {
			t.Errorf("three calls of a millisecond took %v", took)
		}
		if store.Slots() != 0 {
			t.Errorf("%d slots are taken though nothing is under way", store.Slots())
		}
	})
}

// An empty batch is no reason for a round trip.
func TestEmptyBatch(t *testing.T) {
	inner := newRecorder(t, nil)
	if err := newStore(t, inner, coalesce.Options{}).Apply(t.Context(), nil); err != nil || len(inner.seen()) != 0 {
		t.Errorf("%v after %d calls", err, len(inner.seen()))
	}
}

// What one caller hands over stays together and in order, even if it is more than MaxBatch, and nobody is overtaken.
func TestBatchesStayWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, slow)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 1, MaxBatch: 3}), bind(t, slidegate.PerHour(100))
		var all sync.WaitGroup
		for _, keys := range [][]string{{"a"}, {"b", "b"}, {"c", "c"}, {"d"}, {"e", "e", "e", "e", "e"}, {"f"}, {"g"}} {
			all.Go(func() {
				var batch []store.Request
				for range keys {
					batch = append(batch, take(limit, keys[0], 1))
				}
				if err := st.Apply(t.Context(), batch); err != nil {
					t.Error(err)
				}
				for i := range batch {
					if left := batch[i].Answers[0].Remaining; left != int64(99-i) {
						t.Errorf("request %d for %s: %d left", i, keys[0], left)
					}
				}
			})
			synctest.Wait()
		}
		all.Wait()
		want := [][]string{{"a"}, {"b", "b"}, {"c", "c", "d"}, {"e", "e", "e", "e", "e"}, {"f", "g"}}
		if got := inner.seen(); !reflect.DeepEqual(got, want) {
			t.Errorf("calls %v, not %v", got, want)
		}
	})
}

// Random requests of all operations, put together as they come, are answered as a twin answers them one by one.
func TestSameAnswersAsOneByOne(t *testing.T) {
	limits := []*store.Limit{
		bind(t, slidegate.PerSecond(7)),
		bind(t, slidegate.Limit{Name: "log", Quota: 5, Window: time.Second, Algorithm: slidegate.SlidingLog}),
		bind(t, slidegate.Limit{Name: "denied", Quota: 9, Window: time.Second, CountDenied: true}),
		bind(t, slidegate.Limit{Name: "bucket", Quota: 6, Window: time.Second, Algorithm: slidegate.TokenBucket}),
	}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			clock, random := storetest.NewClock(noon), rand.New(rand.NewPCG(seed, 1))
			inner := &recorder{Store: storetest.NewReference(clock), before: slow}
			st := newStore(t, inner, coalesce.Options{InFlight: 1, MaxBatch: 1 + random.IntN(40)})
			twin := storetest.NewReference(clock)
			asked := 0
			for range 10 {
				clock.Advance(rule.Micros(random.Int64N(400_000)))
				var got, want [][]store.Request
				var all sync.WaitGroup
				for range 1 + random.IntN(30) {
					batch := randomBatch(random, limits, clock.Now())
					want, got = append(want, copyOf(batch)), append(got, batch)
					all.Go(func() { _ = st.Apply(t.Context(), batch) })
					synctest.Wait()
				}
				all.Wait()
				for i := range want {
					for j := range want[i] {
						_ = twin.Apply(t.Context(), want[i][j:j+1])
					}
					if asked += len(want[i]); !reflect.DeepEqual(got[i], want[i]) {
						t.Fatalf("seed %d, caller %d:\n shared     %+v\n one by one %+v", seed, i, got[i], want[i])
					}
				}
			}
			if calls := len(inner.seen()); calls > asked*3/4 {
				t.Errorf("seed %d: %d requests in %d calls: they hardly shared any", seed, asked, calls)
			}
		})
	}
}

func randomBatch(random *rand.Rand, limits []*store.Limit, now rule.Micros) []store.Request {
	ops := []rule.Op{
		rule.Take, rule.Take, rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge,
		rule.GiveBack, rule.Reset,
	}
	batch := make([]store.Request, 1+random.IntN(3))
	for i := range batch {
		var charges []store.Charge
		for _, l := range random.Perm(len(limits))[:1+random.IntN(3)] {
			charge := store.Charge{Limit: limits[l], Key: fmt.Sprint(random.IntN(3)), Cost: random.Int64N(4)}
			if random.IntN(2) == 0 {
				charge.At = now
			} else {
				charge.At = rule.Oldest
			}
			charges = append(charges, charge)
		}
		batch[i] = request(ops[random.IntN(len(ops))], charges...)
		batch[i].Group = []string{"", "group"}[random.IntN(2)]
	}
	return batch
}

func copyOf(batch []store.Request) []store.Request {
	var c []store.Request
	for _, r := range batch {
		r.Charges = append([]store.Charge(nil), r.Charges...)
		r.Answers = make([]rule.Answer, len(r.Answers))
		c = append(c, r)
	}
	return c
}

// TakeSingle shares calls as Apply does, and answers the same.
func TestTakeOneShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, slow)
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(5))
		var all sync.WaitGroup
		for i := range int64(4) {
			all.Go(func() {
				// The costs are 1, 2, 3 and 4: the third and the fourth are too much for what is left of 5.
				allowed, flags, remaining, retryAfter, resetAfter, at, err := store.TakeSingle(t.Context(), limit, "k", i+1)
				wantLeft := []int64{4, 2, 2, 2}[i]
				if allowed != (i < 2) || flags != 0 || remaining != wantLeft || (retryAfter > 0) != (i >= 2) ||
					resetAfter <= 0 || at != noon || err != nil {
					t.Errorf("cost %d: allowed %v, flags %v, %d left, retry after %d, reset after %d, at %d, %v\n"+
						"want allowed %v, no flags, %d left, a retry only if refused, a reset, at %d",
						i+1, allowed, flags, remaining, retryAfter, resetAfter, at, err, i < 2, wantLeft, noon)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if got := inner.seen(); len(got) != 2 || len(got[1]) != 3 {
			t.Errorf("calls %v", got)
		}
	})
}

// With Gather, who comes after a crowd is not sent alone, and yet at once; those who come then are alone again.
func TestAfterACrowd(t *testing.T) {
	for _, gather := range []bool{false, true} {
		t.Run(fmt.Sprint("gather ", gather), func(t *testing.T) { afterACrowd(t, gather) })
	}
}

func afterACrowd(t *testing.T, gather bool) {
	synctest.Test(t, func(t *testing.T) {
		type mark struct{}
		ctx := context.WithValue(t.Context(), mark{}, true)
		var alone []bool
		inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
			alone = append(alone, ctx.Value(mark{}) != nil) // shared calls have contexts of their own
			return slow(ctx, batch)
		})
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 2, Gather: gather}), bind(t, slidegate.PerHour(100))
		start := time.Now()
		wait := func(all ...*asking) {
			t.Helper()
			for _, a := range all {
				if <-a.done; a.err != nil || !a.answer.Allowed {
					t.Errorf("got %+v, %v, want it allowed", a.answer, a.err)
				}
			}
		}
		var crowd []*asking
		for range 5 {
			crowd = append(crowd, ask(ctx, store, limit, "crowd"))
		}
		wait(crowd...)
		wait(ask(ctx, store, limit, "first"))
		wait(ask(ctx, store, limit, "second"))
		want := [][]string{{"crowd"}, {"crowd"}, {"crowd", "crowd", "crowd"}, {"first"}, {"second"}}
		if got := inner.seen(); !reflect.DeepEqual(got, want) || time.Since(start) != 4*time.Millisecond {
			t.Errorf("after %v: %q, want %q after 4ms", time.Since(start), got, want)
		}
		if want := []bool{true, true, false, !gather, true}; !reflect.DeepEqual(alone, want) {
			t.Errorf("alone: %v, want %v", alone, want)
		}
		expectIdle(t, store)
	})
}

// A burst of callers after a crowd: all are answered, and no more than Options say are sent at once.
func TestBurstAfterACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, slow)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 2, MaxBatch: 3, Gather: true}), bind(t, slidegate.PerHour(100))
		var all sync.WaitGroup
		var admitted atomic.Int64
		for range 10 {
			for range 20 {
				all.Go(func() {
					batch := []store.Request{take(limit, "hot", 1)}
					if err := st.Apply(t.Context(), batch); err != nil {
						t.Error(err)
					}
					if batch[0].Answers[0].Allowed {
						admitted.Add(1)
					}
				})
			}
			all.Wait()
		}
		for _, keys := range inner.seen() {
			if len(keys) > 3 {
				t.Errorf("a call of %d", len(keys))
			}
		}
		if admitted.Load() != 100 || inner.most != 2 {
			t.Errorf("%d of 100 were admitted, %d calls at once", admitted.Load(), inner.most)
		}
		expectIdle(t, st)
	})
}
