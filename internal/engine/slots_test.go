package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// slots returns an in-flight limit of n slots.
func slots(n int64) []slidegate.Limit { return []slidegate.Limit{slidegate.Slots(n, time.Minute)} }

// spy is a store that records the requests it receives.
type spy struct {
	store.Store
	trips    int
	requests []store.Request
}

func (s *spy) Apply(ctx context.Context, batch []store.Request) error {
	for _, r := range batch {
		r.Charges = slices.Clone(r.Charges)
		s.requests = append(s.requests, r)
	}
	return s.Store.Apply(ctx, batch)
}

func (s *spy) Traits() store.Traits {
	traits := s.Store.Traits()
	traits.RoundTrips = s.trips
	return traits
}

// Where nothing would release a slot, none is taken, which is an error whatever the failure mode.
func TestSlotThatNothingReleasesIsAnError(t *testing.T) {
	for name, s := range bothWays(t, Spec{Name: "p", Limits: append(slots(2), named("units", 5))}, Spec{Name: "free", Limits: []slidegate.Limit{named("", 5)}}) {
		for _, op := range []rule.Op{rule.Take, rule.TakeUpTo, rule.Charge} {
			var v policy.Decision
			s.Decide(t.Context(), op, &Part{Key: "ann", Cost: 1}, &v)
			if !v.Refused || !v.Mistake || !errors.Is(v.Err, slidegate.ErrUnsupported) || !errors.Is(v.Err, policy.ErrSlots) || strings.Contains(v.Err.Error(), "store") {
				t.Errorf("%s: Ask with %v: got %+v, want a mistake", name, op, v)
			}
		}
		verdicts := make([]policy.Decision, 2)
		s.DecideBatch(t.Context(), []Part{{Policy: 0, Key: "ann", Cost: 1}, {Policy: 1, Key: "ann", Cost: 1}}, verdicts)
		if !verdicts[0].Mistake || !errors.Is(verdicts[0].Err, policy.ErrSlots) || verdicts[1].Refused {
			t.Errorf("%s: AskBatch: got %+v, want a mistake and an admission", name, verdicts)
		}
		r := s.Begin()
		r.Add(Part{Policy: 0, Key: "ann", Cost: 1})
		r.Add(Part{Policy: 1, Key: "ann", Cost: 1})
		var v policy.Decision
		r.Decide(t.Context(), rule.Take, &v)
		r.End()
		if !v.Mistake || !errors.Is(v.Err, policy.ErrSlots) {
			t.Errorf("%s: a Transaction without Slots: got %+v, want a mistake", name, v)
		}
		if free, units := left(t, s, 0), left(t, s, 1); free != 2 || units != 4 {
			t.Errorf("%s: got %d slots and %d units left, want 2 and 4", name, free, units)
		}
	}
}

func TestHasSlots(t *testing.T) {
	five := []slidegate.Limit{named("", 5)}
	s := newSet(t, newMemory(t), Options{}, Spec{Name: "none", Limits: five}, Spec{Name: "own", Limits: append(slots(1), named("x", 5))},
		Spec{Name: "override", Limits: five, Overrides: []policy.Override{{Key: "ann", Limits: slots(1)}}})
	for i, want := range []bool{false, true, true} {
		if got := s.HasSlots(i); got != want {
			t.Errorf("policy %d: HasSlots = %v, want %v", i, got, want)
		}
	}
}

// Shadow policies whose slots nothing releases are not decided, and report that; they refuse nothing.
func TestNothingReleasesInTheShadow(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, Spec{Name: "live", Limits: []slidegate.Limit{named("", 5)}},
		Spec{Name: "tried", Shadow: true, Limits: slots(2)})
	r := s.Begin()
	r.Record = true
	r.Add(Part{Policy: 0, Key: "ann", Cost: 1})
	r.Add(Part{Policy: 1, Key: "ann", Cost: 1})
	var v policy.Decision
	r.Decide(t.Context(), rule.Take, &v)
	if v.Refused || v.Err != nil || v.Policy != "live" {
		t.Errorf("got %+v, want an admission by live", v)
	}
	if tried := r.Trials(); len(tried) != 1 || !errors.Is(tried[0].Err, policy.ErrSlots) || tried[0].Refused {
		t.Errorf("got the reports %+v, want one with policy.ErrSlots that refuses nothing", tried)
	}
	r.End()
	if got := left(t, s, 1); got != 2 {
		t.Errorf("got %d slots of the shadow left, want 2", got)
	}
}

// The ID of a reservation is chosen before its slots are taken, so that its owner can release them; End does not.
func TestReservedSlots(t *testing.T) {
	watched := &spy{Store: newMemory(t)}
	s := newSet(t, watched, Options{}, Spec{Name: "p", Limits: append(slots(2), named("units", 100))})
	r := s.Begin()
	r.Slots = SlotsReserved
	r.Add(Part{Key: "ann", Cost: 70, Hold: true})
	var v policy.Decision
	r.Decide(t.Context(), rule.Take, &v)
	held, err := r.Reservation()
	r.End()
	if err != nil || len(held.Charges) != 2 || held.Charges[0].Cost != 1 || held.Charges[1].Cost != 70 || held.Version != adapter.ReservationVersion {
		t.Fatalf("got reservation %+v, %v; want a slot and 70 units", held, err)
	}
	if took := watched.requests[0]; took.Op != rule.Take || took.ID != store.IDOf(held.ID) {
		t.Errorf("the store received %+v, want a Take with the ID of the reservation", took)
	}
	if got := left(t, s, 0); got != 1 {
		t.Errorf("got %d slots left after End, want 1", got)
	}
	limiter := s.Limiter(0)
	if d := testkit.Must(limiter.Renew(t.Context(), held))(t); !d.Allowed {
		t.Errorf("Renew: got %+v, want it allowed", d)
	}
	for i := range 2 {
		settled := testkit.Must(limiter.Settle(t.Context(), held, slidegate.Used{Limit: "p/units", Cost: 30}))(t)
		if settled.Repeated != (i > 0) {
			t.Errorf("settled %d times: got %+v", i+1, settled)
		}
		if d := testkit.Must(limiter.Peek(t.Context(), "ann", 1))(t); d.Answers[0].Remaining != 2 || d.Answers[1].Remaining != 70 {
			t.Errorf("settled %d times: the answers are %+v, want 2 and 70 left", i+1, d.Answers)
		}
	}
}

// Returns and charges are settled by one request to the store for the policies that decide, and one for each in the shadow.
func TestSettleIsOneRequest(t *testing.T) {
	watched := &spy{Store: newMemory(t)}
	ten := []slidegate.Limit{named("", 10), named("too", 20)}
	s := newSet(t, watched, Options{}, Spec{Name: "less", Limits: ten}, Spec{Name: "more", Limits: ten}, Spec{Name: "tried", Limits: ten, Shadow: true})
	settle(t, s, rule.Take, func(policy int, _ int64) int64 { return []int64{1, 7, 5}[policy] },
		Part{Policy: 0, Key: "ann", Cost: 4, Hold: true}, Part{Policy: 1, Key: "ann", Cost: 4, Hold: true}, Part{Policy: 2, Key: "ann", Cost: 4, Hold: true})
	if n := len(watched.requests); n != 4 {
		t.Fatalf("the store received %d requests, want 2 takes and 2 settlements", n)
	}
	for i, want := range []struct {
		op      rule.Op
		charges int
	}{{rule.Take, 4}, {rule.Take, 2}, {rule.Settle, 4}, {rule.Settle, 2}} {
		if r := watched.requests[i]; r.Op != want.op || len(r.Charges) != want.charges || r.ID != watched.requests[0].ID || r.ID == 0 {
			t.Errorf("request %d is %+v, want %v with %d charges and the ID of the first", i, r, want.op, want.charges)
		}
	}
	for index, want := range []int64{9, 3, 5} {
		if got := left(t, s, index); got != want {
			t.Errorf("got %d of policy %d left, want %d", got, index, want)
		}
	}
}

// When the store cannot remember another settlement, nothing is returned, and that is an error.
func TestUnsettled(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 5000)}})
	limit := s.BoundLimits(0)[0].Rule()
	var err error
	settled := int64(0)
	for ; err == nil && settled < 3*limit.Settlements(); settled++ {
		r := s.Begin()
		r.Add(Part{Key: "ann", Cost: 2, Hold: true})
		var v policy.Decision
		if r.Decide(t.Context(), rule.Take, &v); v.Refused {
			t.Fatalf("refused after %d settlements", settled)
		}
		r.Finish(t.Context(), always(0), func(failed error) { err = failed })
	}
	if !errors.Is(err, slidegate.ErrUnsettled) || settled < limit.Settlements() {
		t.Errorf("got error %v after %d settlements, want ErrUnsettled after %d at least", err, settled, limit.Settlements())
	}
	if got := left(t, s, 0); got != 4998 {
		t.Errorf("got %d left, want all but the 2 that could not be returned", got)
	}
}

// In an outage the failure mode decides about slots too, and slots of the fallback are renewed and released there.
func TestSlotsInAnOutage(t *testing.T) {
	for mode, want := range map[store.Mode][]bool{store.FailOpen: {true, true}, store.FailClosed: {false, false}, store.FailLocal: {true, false}} {
		for _, trips := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				dead := &faultyStore{Store: newMemory(t), trips: trips, err: errDown}
				s := newSet(t, dead, Options{Failure: mode}, Spec{Name: "p", Limits: slots(1)})
				var lost int
				begin := func() *Transaction {
					r := s.Begin()
					r.Slots = SlotsHeld
					r.Add(Part{Key: "ann", Cost: 1})
					return r
				}
				var running []*Transaction
				for i, allowed := range want {
					r := begin()
					var v policy.Decision
					r.Decide(t.Context(), rule.Take, &v)
					if v.Refused == allowed || !errors.Is(v.Err, errDown) || r.Held() != (mode == store.FailLocal && allowed) {
						t.Errorf("%v, %d round trips, request %d: got %+v, holds %v; want allowed %v", mode, trips, i, v, r.Held(), allowed)
					}
					r.RenewSlots(t.Context(), func(policy.Decision) { lost++ })
					running = append(running, r)
				}
				testkit.Pass(10 * time.Minute)
				var v policy.Decision
				r := begin()
				if r.Decide(t.Context(), rule.Take, &v); v.Refused == (mode == store.FailOpen) || lost > 0 {
					t.Errorf("%v, %d round trips: after ten times the time to live got %+v, %d slots lost", mode, trips, v, lost)
				}
				for _, r := range append(running, r) {
					r.Finish(t.Context(), nil, func(err error) { t.Errorf("%v, %d round trips: %v", mode, trips, err) })
				}
				if err := s.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				r, v = begin(), policy.Decision{}
				if r.Decide(t.Context(), rule.Take, &v); v.Refused != (mode == store.FailClosed) {
					t.Errorf("%v, %d round trips: after the release got %+v", mode, trips, v)
				}
				r.End()
				if err := s.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A request is decided once more after a refusal for lack of a slot only if no other limit refused it.
func TestSlotRefusal(t *testing.T) {
	slot, unit := testkit.Must(adapter.Bind("", slots(1)[0]))(t), testkit.Must(adapter.Bind("", named("", 1)))(t)
	for i, test := range []struct {
		allowed [2]bool
		flags   rule.Flags
		op      rule.Op
		want    bool
	}{
		{[2]bool{false, true}, 0, rule.Take, true}, {[2]bool{false, false}, 0, rule.Take, false}, {[2]bool{true, false}, 0, rule.Take, false},
		{[2]bool{true, true}, 0, rule.Take, false}, {[2]bool{false, true}, rule.FallbackClosed, rule.Take, false}, {[2]bool{false, true}, 0, rule.Peek, false},
	} {
		request := store.Request{
			Op: test.op, Charges: []store.Charge{{Limit: slot, Key: "ann"}, {Limit: unit, Key: "bob"}},
			Answers: []rule.Answer{{Allowed: test.allowed[0], Flags: test.flags}, {Allowed: test.allowed[1], Flags: test.flags}},
		}
		if key, only := slotRefusal(&request); only != test.want || only && key != "ann" {
			t.Errorf("case %d: got %q, %v, want %v", i, key, only, test.want)
		}
	}
}

// A refund returns units and leaves the slots to the requests that hold them, by every method.
func TestRefundLeavesSlots(t *testing.T) {
	units := append(slots(2), named("units", 100))
	for name, p := range map[string]Spec{"alone": {Limits: units}, "with a penalty": {Limits: units, Penalty: time.Minute}} {
		s := newSet(t, newMemory(t), Options{}, p)
		r := s.Begin()
		r.Slots = SlotsHeld
		r.Add(Part{Key: "ann", Cost: 70})
		var v policy.Decision
		r.Decide(t.Context(), rule.Take, &v)
		var back policy.Decision
		s.Decide(t.Context(), rule.GiveBack, &Part{Key: "ann", Cost: 30}, &back)
		if a := back.Decision.Answers; back.Err != nil || len(a) != 2 || a[0].Remaining != 1 || a[1].Remaining != 60 {
			t.Errorf("%s: got %+v, want 1 slot and 60 units left", name, back)
		}
		r.End()
	}
}

// slowRelease is a store that releases no slots until it is allowed to.
type slowRelease struct {
	distant
	release chan struct{}
}

func (s *slowRelease) Apply(ctx context.Context, batch []store.Request) error {
	if batch[0].Op == rule.Settle {
		<-s.release
	}
	return s.Store.Apply(ctx, batch)
}

// Drain waits for requests that began before a reload, and a client that returns after it waits for its own slot.
func TestDrainAfterReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowRelease{distant: distant{newMemory(t)}, release: make(chan struct{})}
		policies := []Spec{{Name: "p", Limits: slots(1)}}
		begin := func(s *Set) (*Transaction, policy.Decision) {
			r := s.Begin()
			r.Slots = SlotsHeld
			r.Add(Part{Key: "ann", Cost: 1})
			var v policy.Decision
			r.Decide(t.Context(), rule.Take, &v)
			return r, v
		}
		before := testkit.Must(NewOver(slow, policies, Options{}))(t)
		running, v := begin(before)
		if v.Refused {
			t.Fatalf("got %+v, want an admission", v)
		}
		after := testkit.Must(NewOver(slow, policies, Options{Before: before}))(t)
		running.Finish(t.Context(), nil, func(err error) { t.Error(err) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := after.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while a slot is being released: got %v, want it to wait", err)
		}
		time.AfterFunc(slotPatience/2, func() { close(slow.release) })
		next, v := begin(after)
		if v.Refused {
			t.Errorf("the next request of the client: got %+v, want it to wait for the slot", v)
		}
		next.Finish(t.Context(), nil, func(err error) { t.Error(err) })
		if err := after.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
