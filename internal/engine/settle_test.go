package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// left returns how many units are left of the first limit of a policy.
func left(t *testing.T, s *Set, index int) int64 {
	t.Helper()
	var v policy.Decision
	s.Decide(t.Context(), rule.Peek, &Part{Policy: index, Key: "ann", Cost: 1}, &v)
	return v.Decision.Remaining
}

// settle decides a request of these parts and settles it; it returns the verdict.
func settle(t *testing.T, s *Set, op rule.Op, actual func(policy int, cost int64) int64, parts ...Part) (v policy.Decision) {
	t.Helper()
	r := s.Begin()
	defer r.End()
	r.Slots = SlotsHeld
	for _, part := range parts {
		r.Add(part)
	}
	r.Decide(t.Context(), op, &v)
	if r.Held() {
		if err := settleNow(t, r, actual); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// always returns a constant cost.
func always(cost int64) func(int, int64) int64 { return func(int, int64) int64 { return cost } }

// bothWays compiles the same policies over a limiter, where they share a namespace, and over stores, where each has its
// own.
func bothWays(t *testing.T, policies ...Spec) map[string]*Set {
	t.Helper()
	return map[string]*Set{
		"New":     newSet(t, newMemory(t), Options{}, policies...),
		"NewOver": testkit.Must(NewOver(newMemory(t), policies, Options{}))(t),
	}
}

// Each policy is settled where it was charged: those that decide and shadow policies, each by its own cost,
// and parts without Hold are unchanged.
func TestSettleWhereItWasCharged(t *testing.T) {
	ten := []slidegate.Limit{named("", 10)}
	for name, s := range bothWays(t, Spec{Name: "less", Limits: ten}, Spec{Name: "tried", Limits: ten, Shadow: true},
		Spec{Name: "more", Limits: ten}, Spec{Name: "kept", Limits: ten}) {
		calls := map[int]int{}
		settle(t, s, rule.Take, func(policy int, cost int64) int64 {
			if calls[policy]++; cost != 4 {
				t.Errorf("%s: policy %d took %d, want 4", name, policy, cost)
			}
			return []int64{1, 7, 6, 9}[policy]
		}, Part{Policy: 0, Key: "ann", Cost: 4, Hold: true}, Part{Policy: 1, Key: "ann", Cost: 4, Hold: true},
			Part{Policy: 2, Key: "ann", Cost: 4, Hold: true}, Part{Policy: 3, Key: "ann", Cost: 4})
		for index, want := range []int64{9, 3, 4, 6} {
			if got := left(t, s, index); got != want || index < 3 && calls[index] != 1 || index == 3 && calls[index] != 0 {
				t.Errorf("%s: got %d of policy %d left, want %d; actual was called %d times for it", name, got, index, want, calls[index])
			}
		}
	}
}

// A request that was granted in part returns no more than it took.
func TestSettleWhatWasGranted(t *testing.T) {
	for name, s := range bothWays(t, Spec{Name: "p", Limits: []slidegate.Limit{named("", 10)}}) {
		take(t, s, Part{Key: "ann", Cost: 6})
		r := s.Begin()
		r.Add(Part{Key: "ann", Cost: 100, Hold: true})
		var v policy.Decision
		r.Decide(t.Context(), rule.TakeUpTo, &v)
		if held, err := r.Reservation(); err != nil || len(held.Charges) != 1 || held.Charges[0].Cost != 4 {
			t.Errorf("%s: the reservation is %+v, %v; want one charge of 4", name, held, err)
		}
		err := settleNow(t, r, func(_ int, cost int64) int64 {
			if cost != 4 {
				t.Errorf("%s: the request took %d, want 4", name, cost)
			}
			return 1
		})
		r.End()
		if got := left(t, s, 0); err != nil || got != 3 {
			t.Errorf("%s: got %d of 10 left after 6 and 1, want 3; %v", name, got, err)
		}
	}
}

// A reservation has no namespaces, so policies in several namespaces cannot be reserved together.
func TestReservationOfSeveral(t *testing.T) {
	ten := []slidegate.Limit{named("", 10)}
	for name, s := range bothWays(t, Spec{Name: "a", Limits: ten}, Spec{Name: "b", Limits: ten}) {
		r := s.Begin()
		r.Add(Part{Policy: 0, Key: "ann", Cost: 1, Hold: true})
		r.Add(Part{Policy: 1, Key: "ann", Cost: 1, Hold: true})
		var v policy.Decision
		r.Decide(t.Context(), rule.Take, &v)
		held, err := r.Reservation()
		r.End()
		if over := name == "NewOver"; over != errors.Is(err, slidegate.ErrUnsupported) || !over && len(held.Charges) != 2 {
			t.Errorf("%s: the reservation is %+v, %v; want ErrUnsupported from NewOver and two charges from New", name, held, err)
		}
	}
}

// Where the store failed, nothing was taken that a reservation could hold.
func TestReservationOfNothing(t *testing.T) {
	dead := &faultyStore{Store: newMemory(t)}
	s := testkit.Must(NewOver(dead, []Spec{{Name: "p", Limits: []slidegate.Limit{named("", 10)}}}, Options{Failure: store.FailOpen}))(t)
	for i, charges := range []int{1, 0} {
		r := s.Begin()
		r.Add(Part{Key: "ann", Cost: 1, Hold: true})
		var v policy.Decision
		r.Decide(t.Context(), rule.Take, &v)
		held, err := r.Reservation()
		if v.Refused || err != nil || len(held.Charges) != charges || held.ID == "" || r.Held() != (charges > 0) {
			t.Errorf("request %d: the reservation is %+v, %v; want an ID and %d charges", i, held, err, charges)
		}
		r.End()
		dead.fail(errDown)
	}
}

// A request that waits has nothing to settle until it is admitted, and then also what shadow policies
// took at first.
func TestSettleAfterWaiting(t *testing.T) {
	ten := []slidegate.Limit{named("", 10)}
	s := newSet(t, newMemory(t), Options{}, Spec{Name: "live", Limits: ten}, Spec{Name: "tried", Limits: ten, Shadow: true})
	fill := Part{Key: "ann", Cost: 10}
	take(t, s, fill)
	r := s.Begin()
	defer r.End()
	r.Add(Part{Policy: 0, Key: "ann", Cost: 1, Hold: true})
	r.Add(Part{Policy: 1, Key: "ann", Cost: 1, Hold: true})
	var v policy.Decision
	r.Decide(t.Context(), rule.Take, &v)
	if !v.Refused || r.Held() || !errors.Is(settleNow(t, r, always(1)), slidegate.ErrReservation) {
		t.Errorf("the first time: got %+v and held %v, want a refusal with nothing to settle", v, r.Held())
	}
	s.Decide(t.Context(), rule.GiveBack, &fill, &policy.Decision{})
	v = policy.Decision{}
	if r.Decide(t.Context(), rule.Take, &v); v.Refused || !r.Held() {
		t.Fatalf("the second time: got %+v and held %v, want an admission to settle", v, r.Held())
	}
	if err := settleNow(t, r, always(4)); err != nil {
		t.Fatal(err)
	}
	if live, tried := left(t, s, 0), left(t, s, 1); live != 6 || tried != 6 {
		t.Errorf("got %d and %d of the shadow left of 10, want 6 of each", live, tried)
	}
}

// Where everything is charged afterwards, an overdrawn limit refuses.
func TestChargeAfterwards(t *testing.T) {
	for name, s := range bothWays(t, Spec{Name: "p", Limits: []slidegate.Limit{named("", 10)}},
		Spec{Name: "tried", Shadow: true, Limits: []slidegate.Limit{named("", 10)}}) {
		for i, refused := range []bool{false, false, true, true} {
			if v := settle(t, s, rule.Take, always(6), Part{Key: "ann", Hold: true}); v.Refused != refused {
				t.Errorf("%s: request %d: got %+v, want refused %v", name, i, v, refused)
			}
			if v := settle(t, s, rule.Take, always(6), Part{Policy: 1, Key: "ann", Hold: true}); v.Decision.Allowed == refused || v.Refused {
				t.Errorf("%s: request %d in the shadow: got %+v, want allowed %v", name, i, v, !refused)
			}
		}
	}
}

// Outcomes in an outage are the same for a store in process and a remote one; a caller that has left is not an outage.
func TestOutcomeOfAnOutage(t *testing.T) {
	limits := []slidegate.Limit{named("", 1)}
	for _, trips := range []int{0, 1} {
		for _, mode := range []store.Mode{store.FailOpen, store.FailClosed, store.FailLocal} {
			for _, several := range []bool{false, true} {
				var counted []Outcome
				count := func(_ string, o Outcome) { counted = append(counted, withoutLimit(o)) }
				dead := &faultyStore{Store: newMemory(t), trips: trips, err: errDown}
				s := newSet(t, dead, Options{Failure: mode}, Spec{Name: "a", Limits: limits, Count: count}, Spec{Name: "b", Limits: limits})
				decide := func(ctx context.Context) {
					r := s.Begin()
					defer r.End()
					r.Add(Part{Policy: 0, Key: "ann", Cost: 1})
					if several {
						r.Add(Part{Policy: 1, Key: "ann", Cost: 1})
					}
					var v policy.Decision
					r.Decide(ctx, rule.Take, &v)
				}
				decide(t.Context())
				if len(counted) != 1 || counted[0] != (Outcome{Failed: mode != store.FailLocal, Refused: mode == store.FailClosed, Fallback: true}) {
					t.Errorf("%d round trips, %v, several %v: counted %+v, want one that failed unless the mode is local", trips, mode, several, counted)
				}
				if counted = nil; mode == store.FailLocal {
					decide(t.Context())
					if len(counted) != 1 || counted[0] != (Outcome{Refused: true, Fallback: true}) {
						t.Errorf("%d round trips, %v, several %v: then counted %+v, want a refusal", trips, mode, several, counted)
					}
				}
				gone, cancel := context.WithCancel(t.Context())
				cancel()
				counted = nil
				dead.fail(context.Canceled)
				if decide(gone); len(counted) != 0 {
					t.Errorf("%d round trips, %v, several %v: counted %+v for a caller that has left, want nothing", trips, mode, several, counted)
				}
			}
		}
	}
}

// In the mode open, a key that the store has refused stays refused in an outage, and that is counted as a refusal by the limits.
func TestOpenKeepsRefusals(t *testing.T) {
	limits := []slidegate.Limit{named("", 1)}
	for _, several := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var counted []Outcome
			st := &faultyStore{Store: newMemory(t), trips: 1}
			s := newSet(t, st, Options{Failure: store.FailOpen},
				Spec{Name: "a", Limits: limits, Count: func(_ string, o Outcome) { counted = append(counted, withoutLimit(o)) }}, Spec{Name: "b", Limits: []slidegate.Limit{named("", 100)}})
			decide := func(key string) (v policy.Decision) {
				r := s.Begin()
				defer r.End()
				r.Add(Part{Policy: 0, Key: key, Cost: 1})
				if several {
					r.Add(Part{Policy: 1, Key: key, Cost: 1})
				}
				r.Decide(t.Context(), rule.Take, &v)
				return v
			}
			decide("ann")
			decide("ann")
			testkit.Pass(time.Minute) // until the refusal is no longer cached
			counted = nil
			st.fail(errDown)
			if v := decide("ann"); !v.Refused || v.Policy != "a" || v.Decision.Flags != rule.Cached|rule.FallbackLocal || v.Decision.RetryAfter.Round(time.Minute) != 59*time.Minute || !errors.Is(v.Err, errDown) {
				t.Errorf("several %v: got %+v, want the refusal of the store, for 59 minutes more", several, v)
			}
			if v := decide("bob"); v.Refused || v.Decision.Flags != rule.FallbackOpen {
				t.Errorf("several %v: got %+v for another key, want an admission", several, v)
			}
			if want := []Outcome{{Refused: true, Fallback: true}, {Failed: true, Fallback: true}}; !slices.Equal(counted, want) {
				t.Errorf("several %v: counted %+v, want %+v", several, counted, want)
			}
		})
	}
}

// settleNow settles a request whose store answers at the first attempt.
func settleNow(t *testing.T, r *Transaction, actual func(policy int, cost int64) int64) (err error) {
	t.Helper()
	called := false
	r.Settle(t.Context(), actual, func(failed error) { err, called = failed, true })
	if !called {
		t.Error("Settle returned without a result")
	}
	return err
}
