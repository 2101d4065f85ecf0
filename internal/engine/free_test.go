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

// A request that costs nothing is refused exactly when one unit would be, with the same RetryAfter, and charges nothing,
// by every way to decide it and on every algorithm.
func TestFreeRequestsCheckOneUnit(t *testing.T) {
	ways := map[string]func(*testing.T, *Set, Part) policy.Decision{
		"alone": func(t *testing.T, s *Set, p Part) policy.Decision { return take(t, s, p) },
		"peek": func(t *testing.T, s *Set, p Part) (v policy.Decision) {
			s.Decide(t.Context(), rule.Peek, &p, &v)
			return v
		},
		"up to": func(t *testing.T, s *Set, p Part) (v policy.Decision) {
			s.Decide(t.Context(), rule.TakeUpTo, &p, &v)
			return v
		},
		"batch": func(t *testing.T, s *Set, p Part) policy.Decision {
			verdicts := make([]policy.Decision, 1)
			s.DecideBatch(t.Context(), []Part{p}, verdicts)
			return verdicts[0]
		},
		"request": func(t *testing.T, s *Set, p Part) policy.Decision { return settle(t, s, rule.Take, nil, p) },
		"with another that costs nothing": func(t *testing.T, s *Set, p Part) policy.Decision {
			return settle(t, s, rule.Take, nil, p, Part{Policy: 1, Key: "other"})
		},
		"with another that costs": func(t *testing.T, s *Set, p Part) policy.Decision {
			return settle(t, s, rule.Take, nil, p, Part{Policy: 1, Key: "other", Cost: 1})
		},
		"charged afterwards": func(t *testing.T, s *Set, p Part) policy.Decision {
			p.Hold = true
			return settle(t, s, rule.Take, always(0), p)
		},
		"reserved": func(t *testing.T, s *Set, p Part) (v policy.Decision) {
			r := s.Begin()
			defer r.End()
			p.Hold, r.Slots = true, SlotsReserved
			r.Add(p)
			r.Decide(t.Context(), rule.Take, &v)
			return v
		},
	}
	for _, text := range []string{"3/1m", "300/1m", "3/1m sliding-window", "3/1m fixed-window anchor=first", "3/1m token-bucket", "3/1m count-refused"} {
		for name, way := range ways {
			synctest.Test(t, func(t *testing.T) {
				limit := testkit.Must(slidegate.ParseLimit(text))(t)
				s := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{limit}},
					Spec{Name: "other", Limits: []slidegate.Limit{named("", 100)}})
				one := Part{Key: "ann", Cost: 1}
				left := func() policy.Decision {
					v, err := s.Peek(t.Context(), "", one)
					if err != nil {
						t.Fatal(err)
					}
					return v
				}
				for used := int64(0); used < limit.Quota; used += limit.Quota / 3 {
					if v := way(t, s, Part{Key: "ann"}); v.Refused || v.Decision.Granted > 1 || left().Decision.Remaining != limit.Quota-used {
						t.Errorf("%s, %s, %d used: got %+v, and then %+v left", text, name, used, v, left().Decision)
					}
					take(t, s, Part{Key: "ann", Cost: limit.Quota / 3})
				}
				v, want := way(t, s, Part{Key: "ann"}), left()
				if !v.Refused || v.Policy != "p" || v.Decision.RetryAfter != want.Decision.RetryAfter || v.Decision.RetryAfter <= 0 {
					t.Errorf("%s, %s, all used: got %+v, want a refusal like %+v", text, name, v, want)
				}
				testkit.Pass(want.Decision.RetryAfter)
				if v := way(t, s, Part{Key: "ann"}); v.Refused {
					t.Errorf("%s, %s, after RetryAfter: got %+v, want an admission", text, name, v)
				}
			})
		}
	}
}

// If one of several policies costs nothing and has no unit left, the request is refused and nothing is charged to the
// others; and vice versa. Policies that admit together are all counted, once.
func TestFreePolicyBesideOthers(t *testing.T) {
	counted := map[string][]Outcome{}
	policyOf := func(name string) Spec {
		return Spec{Name: name, Limits: []slidegate.Limit{named("", 5)}, Count: func(_ string, o Outcome) { counted[name] = append(counted[name], withoutLimit(o)) }}
	}
	s := newSet(t, newMemory(t), Options{}, policyOf("free"), policyOf("paid"))
	both := func(cost int64) policy.Decision {
		return settle(t, s, rule.Take, nil, Part{Policy: 0, Key: "ann"}, Part{Policy: 1, Key: "ann", Cost: cost})
	}
	v := both(2)
	if v.Refused || v.Policy != "paid" || v.Decision.Remaining != 3 || len(v.Decision.Answers) != 2 || v.Decision.Answers[1].Remaining != 5 {
		t.Errorf("got %+v, want an admission by paid with 3 left, and 5 left of free", v)
	}
	if v := both(4); !v.Refused || v.Policy != "paid" {
		t.Errorf("more than is left of paid: got %+v, want it refused by paid", v)
	}
	take(t, s, Part{Policy: 0, Key: "ann", Cost: 5})
	counted = map[string][]Outcome{}
	for range 2 {
		if v := both(1); !v.Refused || v.Policy != "free" || v.Decision.RetryAfter <= 0 || v.Decision.Remaining != 0 {
			t.Errorf("nothing left of free: got %+v, want it refused by free", v)
		}
	}
	if left := left(t, s, 0); left != 0 {
		t.Errorf("got %d left of free, want 0", left)
	}
	if v, err := s.Peek(t.Context(), "", Part{Policy: 1, Key: "ann", Cost: 1}); err != nil || v.Decision.Remaining != 3 {
		t.Errorf("got %+v, %v of paid, want 3 left: refusals charge nothing", v, err)
	}
	if v, err := s.Peek(t.Context(), "", Part{Policy: 0, Key: "ann"}, Part{Policy: 1, Key: "ann", Cost: 1}); err != nil || !v.Refused {
		t.Errorf("a peek at both: got %+v, %v; want a refusal", v, err)
	}
	if got := counted["free"]; !slices.Equal(got, []Outcome{{Refused: true}, {Refused: true}}) || counted["paid"] != nil {
		t.Errorf("counted %+v, want two refusals by free and nothing by paid", counted)
	}
	counted = map[string][]Outcome{}
	if v := settle(t, s, rule.Take, nil, Part{Policy: 0, Key: "bob"}, Part{Policy: 1, Key: "bob", Cost: 1}); v.Refused {
		t.Errorf("got %+v, want an admission", v)
	}
	if admitted := []Outcome{{}}; !slices.Equal(counted["free"], admitted) || !slices.Equal(counted["paid"], admitted) {
		t.Errorf("counted %+v, want one admission by each", counted)
	}
}

// A request that holds a slot and costs nothing otherwise is refused while no unit is left, and takes no slot then.
func TestFreeRequestWithSlots(t *testing.T) {
	slots := slidegate.Slots(2, time.Minute)
	slots.Name = "slots"
	s := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 3), slots}})
	hold := func(cost int64) (*Transaction, policy.Decision) {
		r := s.Begin()
		r.Slots = SlotsHeld
		r.Add(Part{Key: "ann", Cost: cost})
		var v policy.Decision
		r.Decide(t.Context(), rule.Take, &v)
		return r, v
	}
	for i, test := range []struct {
		cost    int64
		refused bool
	}{{0, false}, {3, false}, {0, true}, {1, true}} {
		r, v := hold(test.cost)
		if v.Refused != test.refused || r.HoldsSlots() == test.refused || test.refused && v.Decision.RetryAfter <= 59*time.Minute {
			t.Errorf("request %d: got %+v and slots %v, want refused %v for an hour, and a slot otherwise", i+1, v, r.HoldsSlots(), test.refused)
		}
		r.End()
	}
	if v, err := s.Peek(t.Context(), "", Part{Key: "ann", Cost: 1}); err != nil || v.Decision.Answers[1].Remaining != 2 {
		t.Errorf("got %+v, %v; want two free slots", v, err)
	}
}

// countingStore counts calls.
type countingStore struct {
	store.Store
	calls int
}

func (c *countingStore) Apply(ctx context.Context, requests []store.Request) error {
	c.calls++
	return c.Store.Apply(ctx, requests)
}

// Only a request that takes something too needs a second call to the store.
func TestCallsOfFreeRequests(t *testing.T) {
	counting := &countingStore{Store: newMemory(t)}
	s := newSet(t, counting, Options{}, Spec{Name: "a", Limits: []slidegate.Limit{named("", 5)}}, Spec{Name: "b", Limits: []slidegate.Limit{named("", 5)}})
	for _, test := range []struct {
		costs []int64
		calls int
	}{{[]int64{0}, 1}, {[]int64{0, 0}, 1}, {[]int64{0, 1}, 2}, {[]int64{1, 1}, 1}} {
		counting.calls = 0
		r := s.Begin()
		for i, cost := range test.costs {
			r.Add(Part{Policy: i, Key: "ann", Cost: cost})
		}
		var v policy.Decision
		if r.Decide(t.Context(), rule.Take, &v); v.Refused || counting.calls != test.calls {
			t.Errorf("costs %v: got %+v after %d calls, want an admission after %d", test.costs, v, counting.calls, test.calls)
		}
		r.End()
	}
}

// The check before slots are taken does not look at the slots, since one may be about to be released, and takes none: if it
// fails, there is nothing to release.
func TestCheckBeforeSlots(t *testing.T) {
	for _, fails := range []bool{false, true} {
		spied := &spy{Store: newMemory(t)}
		faulty := &failingPeeks{Store: spied, fails: fails}
		limits := append([]slidegate.Limit{named("", 3)}, slots(1)...)
		s := newSet(t, faulty, Options{Failure: store.FailClosed}, Spec{Name: "p", Limits: limits})
		var requests []*Transaction
		for range 2 { // the second finds no slot
			r := s.Begin()
			r.Slots = SlotsHeld
			r.Add(Part{Key: "ann"})
			var v policy.Decision
			r.Decide(t.Context(), rule.Take, &v)
			if want := fails || len(requests) > 0; v.Refused != want || r.HoldsSlots() == want {
				t.Errorf("fails %v, request %d: got %+v, want refused %v", fails, len(requests), v, want)
			}
			requests = append(requests, r)
		}
		var ops []rule.Op
		for _, r := range spied.requests {
			if ops = append(ops, r.Op); r.Op == rule.Peek && (r.Charges[0].Cost != 1 || r.Charges[1].Cost != 0) {
				t.Errorf("fails %v: a check of %+v, want one unit and no slot", fails, r.Charges)
			}
		}
		for _, r := range requests {
			r.End()
		}
		want := []rule.Op{rule.Peek, rule.Take, rule.Peek, rule.Take}
		if fails {
			want, ops = nil, nil
			for _, r := range spied.requests {
				ops = append(ops, r.Op)
			}
		}
		if !slices.Equal(ops, want) {
			t.Errorf("fails %v: got %v, want %v", fails, ops, want)
		}
	}
}

// failingPeeks is a store that may fail all peeks.
type failingPeeks struct {
	store.Store
	fails bool
}

func (f *failingPeeks) Apply(ctx context.Context, requests []store.Request) error {
	if f.fails && requests[0].Op == rule.Peek {
		requests[0].Err = errDown
		return errDown
	}
	return f.Store.Apply(ctx, requests)
}

// If the store cannot check a policy that costs nothing, all policies of the request are reported as failed, also those that were
// not asked yet.
func TestFreePolicyInAnOutage(t *testing.T) {
	failed := map[string]int{}
	policyOf := func(name string) Spec {
		return Spec{Name: name, Limits: []slidegate.Limit{named("", 5)}, Count: func(_ string, o Outcome) {
			if o.Failed {
				failed[name]++
			}
		}}
	}
	st := &faultyStore{Store: newMemory(t)}
	s := newSet(t, st, Options{Failure: store.FailClosed}, policyOf("paid"), policyOf("free"))
	st.fail(errDown)
	r := s.Begin()
	defer r.End()
	r.Record = true
	r.Add(Part{Policy: 0, Key: "ann", Cost: 1})
	r.Add(Part{Policy: 1, Key: "ann"})
	var d policy.Decision
	r.Decide(t.Context(), rule.Take, &d)
	if !d.Refused || d.Policy != "paid" || !errors.Is(d.Err, errDown) || failed["paid"] != 1 || failed["free"] != 1 {
		t.Errorf("got %+v, failed %v; want a refusal that both count as failed", d, failed)
	}
	if all := r.Decided(); len(all) != 2 || all[0].Policy != "paid" || all[1].Policy != "free" || !all[1].Refused {
		t.Errorf("recorded %+v, want one for each policy", all)
	}
}
