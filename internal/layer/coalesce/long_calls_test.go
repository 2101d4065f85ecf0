package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/store"
)

// distance is a store whose round trips take as long as the test says.
type distance struct {
	mu sync.Mutex
	d  time.Duration
}

func (d *distance) set(to time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.d = to
}

func (d *distance) wait(context.Context, []store.Request) error {
	d.mu.Lock()
	away := d.d
	d.mu.Unlock()
	testkit.Delay(away)
	return nil
}

// busy lets callers request one unit of a key each, again and again with short pauses, for two seconds, and returns the longest
// time that a request took.
func busy(t *testing.T, st store.Store, limit *store.Limit, callers int) (longest time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	until := time.Now().Add(2 * time.Second)
	for i := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 11))
			for time.Now().Before(until) {
				testkit.Delay(time.Duration(random.IntN(5000)) * time.Microsecond)
				start := time.Now()
				if err := st.Apply(t.Context(), []store.Request{take(limit, fmt.Sprint("key-", i), 1)}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				longest = max(longest, time.Since(start))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return longest
}

// Where round trips are long, a request waits for at most two ticks before it is sent, in few more calls; where they are short,
// calls are as many as InFlight says, also after they were long.
func TestLongRoundTrips(t *testing.T) {
	for _, callers := range []int{12, 64} {
		synctest.Test(t, func(t *testing.T) {
			var away distance
			inner := newRecorder(t, away.wait)
			st, limit := newStore(t, inner, coalesce.Options{InFlight: 2}), bind(t, slidegate.PerHour(1_000_000))
			for _, c := range []struct{ away, longest time.Duration }{
				{time.Millisecond, 2 * time.Millisecond},
				{80 * time.Millisecond, 90 * time.Millisecond},
				{time.Millisecond, 2 * time.Millisecond},
				{20 * time.Millisecond, 30 * time.Millisecond},
				{4 * time.Millisecond, 8 * time.Millisecond},
			} {
				away.set(c.away)
				inner.mu.Lock()
				inner.most = 0
				inner.mu.Unlock()
				longest := busy(t, st, limit, callers)
				most := 2
				if c.away > 5*time.Millisecond {
					most += int(c.away / (5 * time.Millisecond))
				}
				if longest > c.longest || inner.most > most || inner.most < 2 {
					t.Errorf("%d callers, %v away: the longest took %v, with %d concurrent calls; want at most %v and %d",
						callers, c.away, longest, inner.most, c.longest, most)
				}
			}
			expectIdle(t, st)
		})
	}
}

// When round trips become short under load, the calls become few again.
func TestLongRoundTripsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away distance
		away.set(80 * time.Millisecond)
		inner := newRecorder(t, away.wait)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 2, MaxBatch: 4}), bind(t, slidegate.PerHour(1_000_000))
		long, short := 0, 0
		go func() {
			testkit.Delay(time.Second)
			away.set(time.Millisecond)
			testkit.Delay(200 * time.Millisecond)
			inner.mu.Lock()
			long, inner.most = inner.most, 0
			inner.mu.Unlock()
			testkit.Delay(600 * time.Millisecond)
			inner.mu.Lock()
			short = inner.most
			inner.mu.Unlock()
		}()
		busy(t, st, limit, 200)
		if long < 8 || short != 2 {
			t.Errorf("%d concurrent calls while they took long, %d when they no longer did; want 8 at least, and 2", long, short)
		}
		expectIdle(t, st)
	})
}

// Calls that take long do not become more and more.
func TestLongCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away distance
		away.set(time.Second / 2)
		inner := newRecorder(t, away.wait)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 3, MaxBatch: 10}), bind(t, slidegate.PerHour(1_000_000))
		busy(t, st, limit, 500)
		if inner.most != 3+coalesce.MaxExtra {
			t.Errorf("%d concurrent calls, want %d", inner.most, 3+coalesce.MaxExtra)
		}
		expectIdle(t, st)
	})
}

// costly is a store that loses a connection when the context of a call ends.
type costly struct{ store.Store }

func (c costly) Traits() store.Traits {
	return store.Traits{Name: "costly", RoundTrips: 1, MaxCharges: 8, CostlyCancel: true}
}

// Over a store for which the end of a call is costly no call has a caller's context, nor ends when its caller leaves, also if
// the queue is full.
func TestCostlyCancel(t *testing.T) {
	type own struct{}
	synctest.Test(t, func(t *testing.T) {
		callers, ended := 0, 0
		inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
			if ctx.Value(own{}) != nil {
				callers++
			}
			testkit.Delay(500 * time.Millisecond)
			if ctx.Err() != nil {
				ended++
			}
			return nil
		})
		inner.Store = costly{inner.Store}
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 2, MaxQueue: 1}), bind(t, slidegate.PerHour(100))
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), own{}, "mine"), 100*time.Millisecond)
		defer cancel()
		lone := send(ctx, st, limit, "a")
		single := make(chan error, 1)
		go func() {
			_, _, _, _, _, _, err := st.TakeSingle(ctx, limit, "b", 1)
			single <- err
		}()
		<-lone.done
		expectEnded(t, lone, context.DeadlineExceeded, "before the store answered")
		if err := <-single; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("TakeSingle returned %v", err)
		}
		testkit.Delay(time.Second)
		first, waits := send(t.Context(), st, limit, "a"), send(t.Context(), st, limit, "a")
		other, full := send(t.Context(), st, limit, "c"), send(t.Context(), st, limit, "a")
		if <-full.done; !errors.Is(full.err, coalesce.ErrFull) {
			t.Errorf("got %v, want the queue full", full.err)
		}
		first.expect(t, 98)
		waits.expect(t, 97)
		other.expect(t, 99)
		if callers != 0 || ended != 0 || inner.used(t, limit, "a") != 3 || inner.used(t, limit, "b") != 1 {
			t.Errorf("%d calls had a caller's context, %d were ended; charged %d and %d, want 3 and 1",
				callers, ended, inner.used(t, limit, "a"), inner.used(t, limit, "b"))
		}
		expectIdle(t, st)
	})
}
