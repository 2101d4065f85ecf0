package failure_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// refusal is what the store said about a cost.
type refusal struct {
	limit int
	cost  int64
	until time.Time
}

// Whatever was asked before, in any order and of any cost: what is refused from memory, the store would refuse; and of each limit of
// an address the last refusal is one at once, and the one that lasts longest as long as it lasts.
func TestRefusalsAreFacts(t *testing.T) {
	ofPlan := func(quota int64, algorithm rule.Algorithm) slidegate.Limit {
		return slidegate.Limit{Name: "p", Algorithm: algorithm, Quota: quota, Window: time.Hour}
	}
	for _, algorithm := range []rule.Algorithm{
		rule.DefaultAlgorithm, slidegate.SlidingLog, slidegate.TokenBucket, slidegate.SlidingWindow, slidegate.FixedWindow,
	} {
		for seed := range uint64(15) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, uint64(len(algorithm.String()))))
				inner := newRemote(t)
				st := newStore(t, inner, store.FailOpen, failure.Options{})
				limits := []*store.Limit{bind(t, ofPlan(10, algorithm)), bind(t, ofPlan(20, algorithm))}
				if algorithm == rule.DefaultAlgorithm { // whose charges turn a log into parts
					limits[1] = bind(t, ofPlan(rule.DefaultLog+1, algorithm))
				}
				if algorithm == slidegate.TokenBucket { // under another rate a bucket fills at another speed
					limits = limits[:1]
				}
				var refusals []refusal
				for range 30 {
					testkit.Delay(time.Duration(random.IntN(900)) * time.Second)
					limit, cost := random.IntN(len(limits)), int64(1+random.IntN(10))
					op := []rule.Op{rule.Take, rule.Take, rule.Peek, rule.Charge}[random.IntN(4)]
					a, err := apply(t, st, op, store.Charge{Limit: limits[limit], Key: "k", Cost: cost})
					if err != nil || a.Flags != 0 {
						t.Fatalf("got %+v, %v, want an answer of the store", a, err)
					}
					if !a.Allowed {
						refusals = append(refusals, refusal{limit, cost, time.Now().Add(a.RetryAfter.Duration())})
					}
				}
				inner.fail(errDown)
				for i := range 20 {
					testkit.Delay(time.Duration(random.IntN(300)*min(i, 1)) * time.Second)
					for limit, bound := range limits {
						wantFacts(t, st, inner.Store, bound, slices.DeleteFunc(slices.Clone(refusals), func(d refusal) bool {
							return d.limit != limit || !d.until.After(time.Now())
						}), i == 0)
					}
				}
			})
		}
	}
}

// wantFacts compares what a layer without its store refuses with what the store would, and with refusals that still hold.
func wantFacts(t *testing.T, st *failure.Store, inner store.Store, limit *store.Limit, refusals []refusal, first bool) {
	t.Helper()
	refused := func(cost int64) bool {
		a, err := apply(t, st, rule.Peek, store.Charge{Limit: limit, Key: "k", Cost: cost})
		if err != nil {
			t.Fatal(err)
		}
		return a.Flags&rule.Cached != 0
	}
	for cost := int64(1); cost <= 10; cost++ {
		a, err := apply(t, inner, rule.Peek, store.Charge{Limit: limit, Key: "k", Cost: cost})
		if err != nil {
			t.Fatal(err)
		}
		if a.Allowed && refused(cost) {
			t.Errorf("%v: %d is refused from memory, and the store would admit it", adapter.Unbind(limit), cost)
		}
	}
	if len(refusals) == 0 {
		return
	}
	longest, last := slices.MaxFunc(refusals, func(a, b refusal) int { return a.until.Compare(b.until) }), refusals[len(refusals)-1]
	if !refused(longest.cost) || first && !refused(last.cost) {
		t.Errorf("%v: the store refused %d for longest and %d last, and one of them is no longer refused", adapter.Unbind(limit), longest.cost, last.cost)
	}
}

// A grant of up to a cost is lower than a cost that the store has refused, and the caller's request is unchanged.
func TestRefusalsBoundGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailOpen, failure.Options{})
		c := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 6}
		for range 2 {
			if _, err := apply(t, st, rule.Take, c); err != nil {
				t.Fatal(err)
			}
		}
		inner.fail(errDown)
		c.Cost = 9
		batch := []store.Request{request(rule.TakeUpTo, store.Charge{Limit: bind(t, two), Key: "k", Cost: 9}, c)}
		batch[0].Charges[0].Limit = bind(t, slidegate.PerHour(100))
		if err := st.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if a := batch[0].Answers; a[0].Granted != 5 || a[1].Granted != 5 || batch[0].Charges[1].Cost != 9 {
			t.Errorf("got %+v of %+v, want 5 granted of a cost of 9", a, batch[0].Charges)
		}
	})
}

// A refusal that was in flight while something was returned to the key is not remembered; later ones are.
func TestRefusalsInFlight(t *testing.T) {
	for _, op := range []rule.Op{rule.Reset, rule.GiveBack, rule.Settle} {
		for way, take := range ways {
			synctest.Test(t, func(t *testing.T) {
				inner := newRemote(t)
				h := &refusalRig{t: t, way: way, inner: inner, Store: newStore(t, inner, store.FailLocal, failure.Options{})}
				c := store.Charge{Limit: bind(t, two), Key: "k", Cost: 2}
				first := h.take(c)
				decided, deliver := make(chan struct{}), make(chan struct{})
				inner.do(func(ctx context.Context, batch []store.Request) error {
					err := inner.Store.Apply(ctx, batch)
					if batch[0].Op == rule.Take {
						close(decided)
						<-deliver
					}
					return err
				})
				done := make(chan rule.Answer)
				go func() {
					a, _ := take(t.Context(), h, c)
					done <- a
				}()
				<-decided
				back := c
				back.At = first.At
				h.do(op, back)
				close(deliver)
				if a := <-done; a.Allowed || a.Flags != 0 {
					t.Fatalf("got %+v, want a refusal of the store", a)
				}
				inner.heal()
				h.down()
				h.wantRefused(false, 0, c, store.FailLocal)
				inner.heal()
				testkit.Pass(time.Second)
				h.take(c) // used up again
				h.down()
				h.wantRefused(true, time.Minute, c, store.FailLocal)
			})
		}
	}
}

// A refusal from memory says what Local has left of the limits that are not the reason.
func TestRefusalsOfOneLimitAmongSeveral(t *testing.T) {
	for mode := store.FailOpen; mode < store.Modes; mode++ {
		synctest.Test(t, func(t *testing.T) {
			inner := newRemote(t)
			st := newStore(t, inner, mode, failure.Options{})
			take := func() []rule.Answer {
				r := request(rule.Take, store.Charge{Limit: bind(t, two), Key: "k", Cost: 1}, store.Charge{Limit: bind(t, slidegate.PerHour(100)), Key: "k", Cost: 1})
				if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
					t.Fatal(err)
				}
				return r.Answers
			}
			for range 3 {
				take()
			}
			inner.fail(errDown)
			a := take()
			if a[0].Allowed || a[0].Flags != rule.Cached|rule.FallbackLocal || !a[1].Allowed || a[1].Remaining != 100 || a[1].Granted != 0 || a[1].Flags != rule.FallbackLocal || a[1].At >= 0 {
				t.Errorf("%v: got %+v, want the first refused, and 100 left of the second", mode, a)
			}
		})
	}
}
