package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func limitsOf(texts ...string) (limits []slidegate.Limit) {
	for _, text := range texts {
		limits = append(limits, slidegate.MustParseLimit(text))
	}
	return limits
}

// begin decides a request that runs, with a cost of n.
func begin(t *testing.T, s *Set, key string, n int64, hold bool) (*Transaction, policy.Decision) {
	t.Helper()
	r := s.Begin()
	r.Slots = SlotsHeld
	r.Add(Part{Key: key, Cost: n, Hold: hold})
	var v policy.Decision
	r.Decide(t.Context(), rule.Take, &v)
	return r, v
}

// Requests that outlast the window hold what they take until they end, on every algorithm: ten a second, with requests of five that run for
// four seconds, are two at a time, and what they used is charged when they end.
func TestHeldUnitsOutlastTheWindow(t *testing.T) {
	for _, text := range []string{
		"10/1s hold=1500ms", "10/1s sliding-log hold=1500ms", "10/1s sliding-window hold=1500ms", "10/1s segments=5 overlap=whole hold=1500ms",
		"10/1s fixed-window hold=1500ms", "10/1s token-bucket hold=1500ms",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: limitsOf(text)})
			var running []*Transaction
			for range 8 { // two begin at once, and others are refused for as long as these run
				r, v := begin(t, s, "ann", 5, false)
				if v.Refused {
					if v.Flags&rule.Held == 0 {
						t.Errorf("%s: got %+v, want a refusal because of what is held", text, v)
					}
					r.End()
				} else {
					r.RenewSlots(t.Context(), func(v policy.Decision) { t.Errorf("%s: %v", text, v.Err) })
					running = append(running, r)
				}
				testkit.Pass(500 * time.Millisecond)
			}
			if len(running) != 2 {
				t.Fatalf("%s: %d of five were open at once, want 2", text, len(running))
			}
			for _, r := range running {
				r.Finish(t.Context(), nil, func(err error) { t.Error(err) })
			}
			if r, v := begin(t, s, "ann", 1, false); !v.Refused || v.Flags&rule.Held != 0 {
				t.Errorf("%s: after the end of both: got %+v, want a refusal by what they used", text, v)
			} else {
				r.End()
			}
			testkit.Pass(2100 * time.Millisecond)
			if r, v := begin(t, s, "ann", 10, false); v.Refused {
				t.Errorf("%s: two windows after their end: got %+v, want all of it free", text, v)
			} else {
				r.End()
			}
		})
	}
}

// What a request used is charged when it ends, or settled to less, and a call that only checks or charges does not hold.
func TestHeldUnitsAreSettled(t *testing.T) {
	for name, s := range bothWays(t, Spec{Name: "p", Limits: limitsOf("10/1h hold=1m", "3 in-flight ttl=1m name=slots")}) {
		r, v := begin(t, s, "ann", 8, true)
		if v.Refused || !r.Held() || !r.HoldsUnits() || !r.HoldsSlots() {
			t.Fatalf("%s: got %+v, want 8 held", name, v)
		}
		if other, v := begin(t, s, "ann", 3, false); !v.Refused {
			t.Errorf("%s: 3 more: got %+v, want a refusal", name, v)
		} else {
			other.End()
		}
		if err := settleNow(t, r, func(int, int64) int64 { return 2 }); err != nil {
			t.Error(err)
		}
		r.Finish(t.Context(), nil, func(err error) { t.Error(err) })
		var d policy.Decision
		if s.Decide(t.Context(), rule.Peek, &Part{Key: "ann"}, &d); d.Answers[0].Remaining != 8 {
			t.Errorf("%s: got %+v, want 8 left", name, d)
		}
	}
	s := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: limitsOf("10/1h hold=1m")})
	take(t, s, Part{Key: "ann", Cost: 4}) // nothing would settle it
	r, _ := begin(t, s, "ann", 3, true)
	if err := settleNow(t, r, always(3)); err != nil { // exactly what was held
		t.Error(err)
	}
	r.Finish(t.Context(), nil, func(err error) { t.Error(err) })
	var v policy.Decision
	s.Decide(t.Context(), rule.GiveBack, &Part{Key: "ann", Cost: 9}, &v)
	if v.Granted != 7 {
		t.Errorf("given back: got %+v, want the 4 and 3 that were charged", v)
	}
}

// A reservation of the engine is settled by a limiter.
func TestReservationsHold(t *testing.T) {
	for name, s := range bothWays(t, Spec{Name: "p", Limits: limitsOf("10/1h hold=1m")}) {
		r := s.Begin()
		r.Slots = SlotsReserved
		r.Add(Part{Key: "ann", Cost: 6, Hold: true})
		var v policy.Decision
		r.Decide(t.Context(), rule.Take, &v)
		made, err := r.Reservation()
		r.End()
		if err != nil || v.Refused || made.Charges[0].Limit.Hold != time.Minute {
			t.Fatalf("%s: got %+v, %v, %+v", name, made, err, v)
		}
		limiter := s.Limiter(0)
		if d, err := limiter.Renew(t.Context(), made); err != nil || !d.Allowed {
			t.Errorf("%s: renewed: got %+v, %v", name, d, err)
		}
		if done, err := limiter.SettleAll(t.Context(), made, 1); err != nil || done.Returned[0] != 5 {
			t.Errorf("%s: settled: got %+v, %v, want 5 back", name, done, err)
		}
		if d, err := limiter.Renew(t.Context(), made); err != nil || d.Allowed || d.RetryAfter != slidegate.Never {
			t.Errorf("%s: renewed after the settlement: got %+v, %v, want it lost for good", name, d, err)
		}
	}
}

// unreachable is a store that can lose its renewals.
type unreachable struct {
	*memstore.Store
	mu   sync.Mutex
	lost bool
}

var errLost = errors.New("no route to the store")

func (u *unreachable) Apply(ctx context.Context, batch []store.Request) error {
	u.mu.Lock()
	lost := u.lost && batch[0].Op == rule.Renew
	u.mu.Unlock()
	if !lost {
		return u.Store.Apply(ctx, batch)
	}
	for i := range batch {
		batch[i].Err = errLost
	}
	return errLost
}

// Units that could not be renewed in time are lost: this is reported once, others may use them, and what the request used is charged
// nevertheless.
func TestLostHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unreachable{Store: newMemory(t)}
		s := newSet(t, u, Options{Timeout: -1}, Spec{Name: "p", Limits: limitsOf("10/1h hold=1m")})
		r, v := begin(t, s, "ann", 8, false)
		if v.Refused {
			t.Fatalf("got %+v, want 8 held", v)
		}
		var mu sync.Mutex
		var reports []error
		r.RenewSlots(t.Context(), func(v policy.Decision) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, v.Err)
		})
		u.mu.Lock()
		u.lost = true
		u.mu.Unlock()
		testkit.Pass(90 * time.Second)
		u.mu.Lock()
		u.lost = false
		u.mu.Unlock()
		testkit.Pass(5 * time.Minute)
		mu.Lock()
		if len(reports) != 2 || !errors.Is(reports[0], errLost) || !errors.Is(reports[1], policy.ErrHoldLost) {
			t.Errorf("got the reports %v, want that it could not be renewed, and once that it was lost", reports)
		}
		mu.Unlock()
		other, v := begin(t, s, "ann", 9, false)
		if v.Refused {
			t.Errorf("got %+v, want the lost units free", v)
		}
		r.Finish(t.Context(), nil, func(err error) { t.Error(err) })
		other.Finish(t.Context(), nil, func(err error) { t.Error(err) })
		var d policy.Decision
		s.Decide(t.Context(), rule.GiveBack, &Part{Key: "ann", Cost: 100}, &d)
		if d.Granted != 17 {
			t.Errorf("got %+v, want all 17 that both used charged", d)
		}
	})
}

// A request that never ends holds its units for an hour.
func TestHoldsEndAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: limitsOf("10/1s hold=1m")})
		r, _ := begin(t, s, "ann", 10, false)
		r.RenewSlots(t.Context(), func(v policy.Decision) { t.Error(v.Err) })
		testkit.Pass(time.Hour)
		if other, v := begin(t, s, "ann", 1, false); !v.Refused {
			t.Errorf("after an hour: got %+v, want it held", v)
		} else {
			other.End()
		}
		testkit.Pass(time.Minute + time.Second)
		if other, v := begin(t, s, "ann", 1, false); v.Refused {
			t.Errorf("after an hour and a hold: got %+v, want it free", v)
		} else {
			other.End()
		}
		r.End()
	})
}

// A call with an ID counts once, and can be cancelled by its ID alone.
func TestCallsWithAnID(t *testing.T) {
	spec := Spec{Name: "p", Limits: limitsOf("9/1h", "20/1d name=day")}
	for name, s := range bothWays(t, spec) {
		first := take(t, s, Part{Key: "ann", Cost: 3, ID: "one"})
		again := take(t, s, Part{Key: "ann", Cost: 3, ID: "one"})
		if first.Refused || again.Refused || again.Flags&rule.Repeated == 0 || again.Granted != 3 || again.Remaining != 6 {
			t.Errorf("%s: got %+v, and then %+v, want the same again", name, first, again)
		}
		decisions := make([]policy.Decision, 3)
		s.DecideBatch(t.Context(), []Part{{Key: "ann", Cost: 1, ID: "one"}, {Key: "ann", Cost: 1, ID: "two"}, {Key: "ann", Cost: 1}}, decisions)
		if decisions[0].Flags&rule.Repeated == 0 || decisions[1].Remaining != 5 || decisions[2].Remaining != 4 {
			t.Errorf("%s: in a batch: got %+v, want the first repeated, and two charged", name, decisions)
		}
		if refused := take(t, s, Part{Key: "ann", Cost: 9, ID: "big"}); !refused.Refused || refused.Flags&rule.Repeated != 0 {
			t.Errorf("%s: got %+v, want a refusal", name, refused)
		}
		done, limits, err := s.CancelCall(t.Context(), Part{Key: "ann", ID: "one"})
		if err != nil || len(limits) != 2 || len(done.Returned) != 2 || done.Returned[0] != 3 || done.Returned[1] != 3 {
			t.Errorf("%s: cancelled: got %+v, %v, %v, want 3 units of each", name, done, limits, err)
		}
		if _, _, err := s.CancelCall(t.Context(), Part{Key: "ann", ID: "early"}); err != nil {
			t.Error(err)
		}
		if late := take(t, s, Part{Key: "ann", Cost: 1, ID: "early"}); !late.Refused || late.RetryAfter != slidegate.Never {
			t.Errorf("%s: after its cancellation: got %+v, want a refusal for good", name, late)
		}
	}
}
