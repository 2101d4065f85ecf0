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
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// slow takes a millisecond per call, however large the call.
func slow(context.Context, []store.Request) error {
	testkit.Delay(time.Millisecond)
	return nil
}

// 256 concurrent callers request one key with a quota of 100, from a store that takes a millisecond per call: one call at a
// time has the key, whatever InFlight is.
func TestManyShareAFewCalls(t *testing.T) {
	for _, c := range []struct {
		opts  coalesce.Options
		sizes []int // of the calls, in order
		took  time.Duration
		most  int
	}{
		// One is sent immediately, all others when it is back.
		{coalesce.Options{InFlight: 1}, []int{1, 255}, 2 * time.Millisecond, 1},
		{coalesce.Options{}, []int{1, 255}, 2 * time.Millisecond, 1},
		{coalesce.Options{InFlight: 1, MaxBatch: 100}, []int{1, 100, 100, 55}, 4 * time.Millisecond, 1},
		{coalesce.Options{InFlight: 2, MaxBatch: 127}, []int{1, 127, 127, 1}, 4 * time.Millisecond, 1},
	} {
		t.Run(fmt.Sprintf("%+v", c.opts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newRecorder(t, slow)
				store, limit := newStore(t, inner, c.opts), bind(t, slidegate.PerHour(100))
				start := time.Now()
				var all []*pendingRequest
				for range 256 {
					all = append(all, send(t.Context(), store, limit, "hot"))
				}
				for _, a := range all {
					<-a.done
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				var sizes []int
				for _, keys := range inner.seen() {
					sizes = append(sizes, len(keys))
				}
				if !reflect.DeepEqual(sizes, c.sizes) || inner.most != c.most {
					t.Errorf("got calls of %v, %d concurrent; want %v, %d", sizes, inner.most, c.sizes, c.most)
				}
				expectHundred(t, all)
			})
		})
	}
}

// expectHundred checks that exactly the first 100 callers are admitted.
func expectHundred(t *testing.T, all []*pendingRequest) {
	t.Helper()
	admitted := map[int64]bool{} // by the remaining units
	for i, a := range all {
		if a.err != nil {
			t.Fatalf("caller %d: %v", i, a.err)
		}
		if a.answer.Allowed {
			admitted[a.answer.Remaining] = true
		}
		if a.answer.Allowed != (i < 100) || a.answer.Remaining != max(0, int64(99-i)) {
			t.Fatalf("caller %d got %+v", i, a.answer)
		}
	}
	if len(admitted) != 100 || !admitted[0] || !admitted[99] {
		t.Errorf("got %d admitted, want 100", len(admitted))
	}
}

// A lone caller's request is sent unchanged: its memory, its context, its goroutine, and no extra time.
func TestLoneCallerIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type own struct{}
		ctx := context.WithValue(t.Context(), own{}, "mine")
		limit := bind(t, slidegate.PerHour(100))
		batch := []store.Request{take(limit, "a", 1), take(limit, "b", 1)}
		inner := newRecorder(t, func(got context.Context, sent []store.Request) error {
			if len(sent) != 2 || &sent[0] != &batch[0] || got != ctx {
				t.Errorf("sent a copy, or another context")
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
			t.Errorf("%d slots are taken, but no call is under way", store.Slots())
		}
	})
}

// An empty batch makes no round trip.
func TestEmptyBatch(t *testing.T) {
	inner := newRecorder(t, nil)
	if err := newStore(t, inner, coalesce.Options{}).Apply(t.Context(), nil); err != nil || len(inner.seen()) != 0 {
		t.Errorf("%v after %d calls", err, len(inner.seen()))
	}
}

// One caller's batch stays together and in order, even if it is larger than MaxBatch. Requests that
// wait for the same kind of call are not overtaken; a batch that is larger than a call is of another kind.
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
		want := [][]string{{"a"}, {"e", "e", "e", "e", "e"}, {"b", "b"}, {"c", "c", "d"}, {"f", "g"}}
		if got := inner.seen(); !reflect.DeepEqual(got, want) {
			t.Errorf("got calls %v, want %v", got, want)
		}
	})
}

// Random requests of all operations, combined as they arrive, get the same answers as from an identical store one by
// one.
func TestSameAnswersAsOneByOne(t *testing.T) {
	limits := []*store.Limit{
		bind(t, slidegate.PerSecond(7)),
		bind(t, slidegate.Limit{Name: "log", Quota: 5, Window: time.Second, Algorithm: slidegate.SlidingLog}),
		bind(t, slidegate.Limit{Name: "refused", Quota: 9, Window: time.Second, CountRefused: true}),
		bind(t, slidegate.Limit{Name: "bucket", Quota: 6, Window: time.Second, Algorithm: slidegate.TokenBucket}),
	}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			clock, random := storetest.NewClock(noon), rand.New(rand.NewPCG(seed, 1))
			inner := &recorder{Store: storetest.NewReference(clock), before: slow}
			st := newStore(t, inner, coalesce.Options{InFlight: 1, MaxBatch: 1 + random.IntN(40)})
			twin := storetest.NewReference(clock)
			requests := 0
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
					if requests += len(want[i]); !reflect.DeepEqual(got[i], want[i]) {
						t.Fatalf("seed %d, caller %d:\n shared     %+v\n one by one %+v", seed, i, got[i], want[i])
					}
				}
			}
			if calls := len(inner.seen()); calls > requests*3/4 {
				t.Errorf("seed %d: %d requests in %d calls: too few were shared", seed, requests, calls)
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

// TakeSingle shares calls as Apply does, with the same answers.
func TestTakeOneShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, slow)
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(5))
		var all sync.WaitGroup
		for i := range int64(4) {
			all.Go(func() {
				// The costs are 1, 2, 3 and 4: the third and the fourth exceed what is left of 5.
				allowed, flags, remaining, retryAfter, resetAfter, at, err := store.TakeSingle(t.Context(), limit, "k", i+1)
				wantLeft := []int64{4, 2, 2, 2}[i]
				if allowed != (i < 2) || flags != 0 || remaining != wantLeft || (retryAfter > 0) != (i >= 2) ||
					resetAfter <= 0 || at != noon || err != nil {
					t.Errorf("cost %d: allowed %v, flags %v, %d left, retry after %d, reset after %d, at %d, %v\n"+
						"want allowed %v, no flags, %d left, a retry time only if refused, a reset, at %d",
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

// With Gather, a request after a crowd is not sent alone, but still immediately; the requests after it are alone again.
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
			alone = append(alone, ctx.Value(mark{}) != nil) // shared calls have their own contexts
			return slow(ctx, batch)
		})
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 2, Gather: gather}), bind(t, slidegate.PerHour(100))
		start := time.Now()
		wait := func(all ...*pendingRequest) {
			t.Helper()
			for _, a := range all {
				if <-a.done; a.err != nil || !a.answer.Allowed {
					t.Errorf("got %+v, %v, want it allowed", a.answer, a.err)
				}
			}
		}
		var crowd []*pendingRequest
		for i := range 5 {
			crowd = append(crowd, send(ctx, store, limit, fmt.Sprint("crowd-", i)))
		}
		wait(crowd...)
		wait(send(ctx, store, limit, "first"))
		wait(send(ctx, store, limit, "second"))
		want := [][]string{{"crowd-0"}, {"crowd-1"}, {"crowd-2", "crowd-3", "crowd-4"}, {"first"}, {"second"}}
		if got := inner.seen(); !reflect.DeepEqual(got, want) || time.Since(start) != 4*time.Millisecond {
			t.Errorf("after %v: %q, want %q after 4ms", time.Since(start), got, want)
		}
		if want := []bool{true, true, false, !gather, true}; !reflect.DeepEqual(alone, want) {
			t.Errorf("alone: %v, want %v", alone, want)
		}
		expectIdle(t, store)
	})
}

// In a burst of callers after a crowd, all are answered, and no more calls are concurrent than Options allow.
func TestBurstAfterACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, slow)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 2, MaxBatch: 3, Gather: true}), bind(t, slidegate.PerHour(60))
		var all sync.WaitGroup
		var admitted atomic.Int64
		for range 10 {
			for i := range 20 {
				all.Go(func() {
					batch := []store.Request{take(limit, fmt.Sprint("hot-", i%2), 1)}
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
				t.Errorf("got a call of %d", len(keys))
			}
		}
		if admitted.Load() != 2*60 || inner.most != 2 {
			t.Errorf("got %d of 120 admitted, %d concurrent calls", admitted.Load(), inner.most)
		}
		expectIdle(t, st)
	})
}
