package failure_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// slowRows returns a store that answers at once, but does not answer for keys while slow reports true of them.
func slowRows(t testing.TB, slow func(key string) bool) *remote {
	inner := newRemote(t)
	inner.do(func(ctx context.Context, batch []store.Request) error {
		if key := batch[0].Charges[0].Key; !isProbe(batch) && slow(key) {
			<-ctx.Done()
			return batches.FailAll(batch, ctx.Err())
		}
		return inner.Store.Apply(ctx, batch)
	})
	return inner
}

// A key that is late three times in a row is not asked for for a second; an answer in between restarts the count, and other
// keys are asked for as ever.
func TestLateKeysAreShed(t *testing.T) {
	for name, way := range ways {
		synctest.Test(t, func(t *testing.T) {
			var locked atomic.Bool
			inner := slowRows(t, func(key string) bool { return key == "k" && locked.Load() })
			st := newStore(t, inner, store.FailLocal, failure.Options{})
			limit := bind(t, slidegate.PerHour(1000))
			take := func(key string) (asked bool, took time.Duration) {
				inner.callsSinceCheck()
				took = timed(func() {
					if _, err := way(t.Context(), st, store.Charge{Limit: limit, Key: key, Cost: 1}); err != nil {
						t.Fatal(err)
					}
				})
				return inner.callsSinceCheck() == 1, took
			}
			for i, slow := range []bool{true, true, false, true, true, true} {
				locked.Store(slow)
				if asked, took := take("k"); !asked || (took == 100*time.Millisecond) != slow {
					t.Errorf("%s, call %d: asked %t, took %v", name, i, asked, took)
				}
			}
			for range 100 {
				if asked, took := take("k"); asked || took != 0 {
					t.Fatalf("%s: late three times in a row: asked %t, took %v", name, asked, took)
				}
				if asked, _ := take("other"); !asked {
					t.Fatalf("%s: another key was not asked for", name)
				}
			}
			testkit.Pass(time.Second)
			if asked, took := take("k"); !asked || took != 100*time.Millisecond {
				t.Errorf("%s: a second later: asked %t, took %v", name, asked, took)
			}
			if asked, _ := take("k"); asked {
				t.Errorf("%s: late a fourth time: asked", name)
			}
			locked.Store(false)
			testkit.Pass(time.Second)
			for range 2 {
				if asked, took := take("k"); !asked || took != 0 {
					t.Errorf("%s: the row is free: asked %t, took %v", name, asked, took)
				}
			}
			if got := st.Stats(); got.Shed != 101 || got.Late != 6 || got.Outages != 0 {
				t.Errorf("%s: got %+v, want 101 shed, 6 late, no outage", name, got)
			}
		})
	}
}

// What the store took is settled by the store alone, so that is tried also for a key that is shed.
func TestSettlementsAreNotShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locked atomic.Bool
		inner := slowRows(t, func(string) bool { return locked.Load() })
		st := newStore(t, inner, store.FailLocal, failure.Options{})
		c := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 2}
		taken, err := apply(t, st, rule.Take, c)
		if err != nil {
			t.Fatal(err)
		}
		locked.Store(true)
		for range 3 {
			_, _ = apply(t, st, rule.Take, c)
		}
		locked.Store(false)
		c.At = taken.At
		if a, err := apply(t, st, rule.GiveBack, c); err != nil || a.Granted != 2 || a.Flags != 0 {
			t.Errorf("got %+v, %v, want 2 returned to the store", a, err)
		}
	})
}

// A late call is not an outage: FailOpen and FailLocal ask Local, which has a quota, and FailClosed refuses. In a request with several
// limits, the strictest mode decides.
func TestLateIsNotOut(t *testing.T) {
	for _, c := range []struct {
		modes    []store.Mode
		flag     rule.Flags
		admitted int
	}{
		{[]store.Mode{store.FailOpen}, rule.FallbackLocal, 10}, {[]store.Mode{store.FailLocal}, rule.FallbackLocal, 10},
		{[]store.Mode{0}, rule.FallbackLocal, 10},
		{[]store.Mode{store.FailClosed}, rule.FallbackClosed, 0}, {[]store.Mode{store.FailOpen, store.FailLocal}, rule.FallbackLocal, 10},
		{[]store.Mode{0, store.FailClosed}, rule.FallbackClosed, 0},
		{[]store.Mode{store.FailClosed, store.FailLocal, store.FailOpen}, rule.FallbackClosed, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			inner := slowRows(t, func(string) bool { return true })
			st := newStore(t, inner, 0, failure.Options{})
			var charges []store.Charge
			for i, mode := range c.modes {
				limit := ten
				limit.Name = fmt.Sprint("limit ", i)
				charges = append(charges, store.Charge{Limit: bind(t, limit).In(mode), Key: "k", Cost: 1})
			}
			admitted := 0
			for range 200 {
				r := request(rule.Take, charges...)
				if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
					t.Fatal(err)
				}
				if r.Answers[0].Flags != c.flag {
					t.Fatalf("%v: got %+v, want the flag %v", c.modes, r.Answers, c.flag)
				}
				if _, ok := answering.Deciding(r.Answers); ok {
					admitted++
				}
				testkit.Delay(10 * time.Millisecond)
			}
			if got := st.Stats(); admitted != c.admitted || got.Outages != 0 {
				t.Errorf("%v: got %d admitted, %+v, want %d, no outage", c.modes, admitted, got, c.admitted)
			}
		})
	}
}

// At most MaxWaiting callers wait, and the others are answered at once.
func TestMaxWaiting(t *testing.T) {
	for name, way := range ways {
		synctest.Test(t, func(t *testing.T) {
			inner := slowRows(t, func(string) bool { return true })
			st := newStore(t, inner, store.FailOpen, failure.Options{MaxWaiting: 4})
			limit := bind(t, ten)
			for range 2 {
				var all sync.WaitGroup
				var waited, atOnce atomic.Int64
				for i := range 10 {
					all.Go(func() {
						took := timed(func() {
							if a, err := way(t.Context(), st, store.Charge{Limit: limit, Key: fmt.Sprint(i), Cost: 1}); err != nil || a.Flags != rule.FallbackLocal {
								t.Errorf("%s: got %+v, %v, want an answer of Local", name, a, err)
							}
						})
						switch took {
						case 100 * time.Millisecond:
							waited.Add(1)
						case 0:
							atOnce.Add(1)
						}
					})
				}
				all.Wait()
				if waited.Load() != 4 || atOnce.Load() != 6 || inner.callsSinceCheck() != 4 {
					t.Errorf("%s: %d waited, %d did not, want 4 and 6", name, waited.Load(), atOnce.Load())
				}
			}
			if got := st.Stats(); got.Shed != 12 || got.Outages != 0 {
				t.Errorf("%s: got %+v, want 12 shed, no outage", name, got)
			}
		})
	}
}
