package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// perMinute admits quota units in a minute that begins with the first of them.
func perMinute(quota int64) slidegate.Limit {
	return slidegate.Limit{Quota: quota, Window: time.Minute, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst}
}

func penalized(name string, quota int64, penalty time.Duration) Spec {
	return Spec{Name: name, Limits: []slidegate.Limit{perMinute(quota)}, Penalty: penalty}
}

// checkAdmits checks that a part is admitted.
func checkAdmits(t *testing.T, s *Set, part Part) {
	t.Helper()
	if v := take(t, s, part); v.Refused || v.Penalty != 0 || v.Err != nil {
		t.Errorf("%+v: got %+v, want an admission", part, v)
	}
}

// checkPenalty checks that a part is refused by a penalty that ends after left, and by nothing that ends later.
func checkPenalty(t *testing.T, s *Set, part Part, left time.Duration) {
	t.Helper()
	v := take(t, s, part)
	if !v.Refused || v.Penalty != left || v.Decision.RetryAfter != left || v.Decision.Remaining != 0 || v.Err != nil {
		t.Errorf("%+v: got %+v, want a refusal for %v by the penalty", part, v, left)
	}
	if len(v.Limits) != 1 || v.Decision.Answers != nil {
		t.Errorf("%+v: the verdict has the limits %v and the answers %v, want only the policy's own limit", part, v.Limits, v.Decision.Answers)
	}
}

// The first refusal begins the penalty, later ones do not prolong it, and a client that waits until the retry time is
// admitted.
func TestPenalty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, newMemory(t), Options{}, penalized("p", 2, 10*time.Minute))
		alice, bob := Part{Key: "alice", Cost: 1}, Part{Key: "bob", Cost: 1}
		checkAdmits(t, s, alice)
		checkAdmits(t, s, alice)
		checkPenalty(t, s, alice, 10*time.Minute)
		checkAdmits(t, s, bob)
		testkit.Pass(2 * time.Minute) // the limit itself would admit again
		checkPenalty(t, s, alice, 8*time.Minute)
		testkit.Pass(8*time.Minute - time.Microsecond)
		checkPenalty(t, s, alice, time.Microsecond)
		testkit.Pass(time.Microsecond)
		checkAdmits(t, s, alice)
		checkAdmits(t, s, alice)
		checkPenalty(t, s, alice, 10*time.Minute)
	})
}

// A limit that is longer than the penalty keeps the key out for longer: RetryAfter is the limit's.
func TestPenaltyShorterThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, newMemory(t), Options{}, penalized("p", 1, 10*time.Second))
		part := Part{Key: "k", Cost: 1}
		checkAdmits(t, s, part)
		if v := take(t, s, part); v.Decision.RetryAfter != time.Minute || v.Penalty != 10*time.Second {
			t.Errorf("got %+v, want a refusal for a minute and a penalty of ten seconds", v)
		}
		testkit.Pass(time.Minute)
		checkAdmits(t, s, part)
	})
}

// A cost above the quota, a peek and a cost of 0 do not begin a penalty. One that has begun refuses a cost of 0 too.
func TestPenaltyNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := penalized("p", 2, time.Hour)
		p.Overrides = []policy.Override{{Key: "free", Unlimited: true}, {Key: "small", Limits: []slidegate.Limit{perMinute(1)}}}
		s := newSet(t, newMemory(t), Options{}, p)
		part := Part{Key: "k", Cost: 3}
		if v := take(t, s, part); !v.Refused || v.Penalty != 0 || v.Decision.RetryAfter != slidegate.Never {
			t.Errorf("more than the quota: got %+v, want a refusal forever without a penalty", v)
		}
		part.Cost = 2
		checkAdmits(t, s, part)
		for _, op := range []rule.Op{rule.Peek, rule.Charge} {
			var v policy.Decision
			if s.Decide(t.Context(), op, &part, &v); v.Penalty != 0 {
				t.Errorf("%v: got %+v, want no penalty", op, v)
			}
		}
		part.Cost = 0
		if v := take(t, s, part); !v.Refused || v.Penalty != 0 || v.Decision.RetryAfter != time.Minute {
			t.Errorf("a cost of 0 with nothing left: got %+v, want a refusal for a minute without a penalty", v)
		}
		checkAdmits(t, s, Part{Key: "free", Cost: 9})
		checkAdmits(t, s, Part{Key: "small", Cost: 1})
		checkPenalty(t, s, Part{Key: "small", Cost: 1}, time.Hour)
		part.Cost = 1
		checkPenalty(t, s, part, time.Hour)
		part.Cost = 0
		if v := take(t, s, part); !v.Refused || v.Penalty != time.Hour || v.Decision.RetryAfter != time.Hour {
			t.Errorf("a cost of 0: got %+v, want a refusal for the duration of the penalty", v)
		}
	})
}

// Reset and Forget end a penalty.
func TestPenaltyIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, newMemory(t), Options{}, penalized("p", 1, time.Hour))
		part := Part{Key: "k", Cost: 1}
		for _, forget := range []func() error{
			func() error { return s.Reset(t.Context(), "", part) },
			func() error {
				var v policy.Decision
				s.Decide(t.Context(), rule.Reset, &part, &v)
				return v.Err
			},
		} {
			checkAdmits(t, s, part)
			checkPenalty(t, s, part, time.Hour)
			if err := forget(); err != nil {
				t.Fatal(err)
			}
		}
		checkAdmits(t, s, part)
	})
}

// Of several policies that decide together, one that keeps the key out refuses for all, and the others are not charged.
func TestPenaltyOfOneOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wide := Spec{Name: "wide", Limits: []slidegate.Limit{perMinute(10)}}
		s := newSet(t, newMemory(t), Options{}, wide, penalized("p", 1, time.Hour), penalized("q", 5, time.Hour))
		decide := func() (v policy.Decision) {
			r := s.Begin()
			defer r.End()
			for i := range 3 {
				r.Add(Part{Policy: i, Key: "k", Cost: 1})
			}
			r.Decide(t.Context(), rule.Take, &v)
			return v
		}
		if v := decide(); v.Refused || len(v.Decision.Answers) != 3 {
			t.Fatalf("got %+v, want an admission by three limits", v)
		}
		for range 2 {
			v := decide()
			if !v.Refused || v.Policy != "p" || v.Penalty != time.Hour || v.Decision.RetryAfter != time.Hour || len(v.Decision.Answers) != 3 {
				t.Fatalf("got %+v, want a refusal by p for an hour", v)
			}
			if left := v.Decision.Answers[0].Remaining; left != 9 {
				t.Errorf("got %d units of the wide policy left, want 9", left)
			}
		}
		checkAdmits(t, s, Part{Policy: 2, Key: "k", Cost: 4})
	})
}

// A shadow policy counts what its penalty would do, and refuses nothing.
func TestPenaltyInTheShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := penalized("p", 1, time.Hour)
		p.Shadow = true
		refused := 0
		p.Count = func(_ string, outcome Outcome) {
			if outcome.Refused {
				refused++
			}
		}
		s := newSet(t, newMemory(t), Options{}, p)
		for range 3 {
			if v := take(t, s, Part{Key: "k", Cost: 1}); v.Refused {
				t.Errorf("got %+v, want no refusal", v)
			}
			testkit.Pass(2 * time.Minute)
		}
		if refused != 0 {
			t.Fatalf("got %d requests that would have been refused, want none so far", refused)
		}
		for range 2 {
			take(t, s, Part{Key: "k", Cost: 1})
			take(t, s, Part{Key: "k", Cost: 1})
			testkit.Pass(2 * time.Minute)
		}
		if refused != 3 {
			t.Errorf("got %d requests that would have been refused, want 3: the excess, and two while the key is kept out", refused)
		}
	})
}

// The penalty also applies to batches, to TakeUpTo, and to requests that are charged afterwards.
func TestPenaltyByOtherWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, newMemory(t), Options{}, penalized("p", 2, time.Hour))
		parts := []Part{{Key: "a", Cost: 1}, {Key: "a", Cost: 1}, {Key: "a", Cost: 1}, {Key: "b", Cost: 1}}
		verdicts := make([]policy.Decision, len(parts))
		s.DecideBatch(t.Context(), parts, verdicts)
		if v := verdicts[2]; verdicts[0].Refused || verdicts[1].Refused || !v.Refused || v.Penalty != time.Hour || verdicts[3].Refused {
			t.Errorf("a batch: got %+v", verdicts)
		}
		testkit.Pass(2 * time.Minute)
		checkPenalty(t, s, parts[0], 58*time.Minute)

		upTo := Part{Key: "c", Cost: 5}
		for i, want := range []int64{2, 0, 0} {
			var v policy.Decision
			s.Decide(t.Context(), rule.TakeUpTo, &upTo, &v)
			if v.Decision.Granted != want || v.Refused != (want == 0) || (v.Penalty == time.Hour) != (want == 0) {
				t.Errorf("up to five, request %d: got %+v, want %d units", i+1, v, want)
			}
		}

		held := Part{Key: "d", Cost: 0, Hold: true}
		for i, refused := range []bool{false, true} {
			var v policy.Decision
			r := s.Begin()
			r.Slots = SlotsHeld
			r.Add(held)
			if r.Decide(t.Context(), rule.Take, &v); v.Refused != refused || (v.Penalty > 0) != refused {
				t.Errorf("charged afterwards, request %d: got %+v", i+1, v)
			}
			if !v.Refused {
				if err := settleNow(t, r, func(int, int64) int64 { return 7 }); err != nil {
					t.Error(err)
				}
			}
			r.End()
		}
	})
}

// A reservation has no charge of the penalty, which would be settled with the others.
func TestPenaltyIsNotReserved(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, penalized("p", 2, time.Hour))
	r := s.Begin()
	defer r.End()
	r.Slots = SlotsReserved
	r.Add(Part{Key: "k", Cost: 2, Hold: true})
	var v policy.Decision
	r.Decide(t.Context(), rule.Take, &v)
	held, err := r.Reservation()
	if err != nil || len(held.Charges) != 1 || held.Charges[0].Cost != 2 {
		t.Errorf("got %+v, %v, want one charge", held, err)
	}
}

// The client may have left when its excess is charged.
func TestPenaltyOfAClientThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &faultyStore{Store: newMemory(t), trips: 1}
		s := newSet(t, st, Options{}, penalized("p", 1, time.Hour))
		part := Part{Key: "k", Cost: 1}
		checkAdmits(t, s, part)
		ctx, cancel := context.WithCancel(t.Context())
		tr := s.Begin()
		defer tr.End()
		tr.Add(part)
		tr.routeAll(rule.Take, tr.given)
		tr.list(rule.Take)
		tr.addPenalties(ctx)
		tr.lay()
		tr.plan.batch.apply(ctx, "", 0, s.store)
		cancel()
		tr.applyPenalties(ctx)
		if left := tr.plan.longestKept(0); left != time.Hour {
			t.Errorf("got the key kept out for %v, want an hour", left)
		}
		checkPenalty(t, s, part, time.Hour)
	})
}

// A refusal that is remembered from before the penalty does not hide it, and calls the store at most once.
func TestPenaltyBehindARefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &faultyStore{Store: newMemory(t)}
		cache := refusals.New(st, refusals.Options{})
		s := newSet(t, cache, Options{}, penalized("p", 1, time.Hour))
		part := Part{Key: "k", Cost: 1}
		checkAdmits(t, s, part)
		checkPenalty(t, s, part, time.Hour)
		testkit.Pass(time.Millisecond)
		checkPenalty(t, s, part, time.Hour-time.Millisecond)
		before := st.calls.Load()
		for range 5 {
			checkPenalty(t, s, part, time.Hour-time.Millisecond)
		}
		if calls := st.calls.Load() - before; calls != 0 {
			t.Errorf("the store was called %d times, want none: everything is remembered", calls)
		}
		if err := s.Reset(t.Context(), "", part); err != nil {
			t.Fatal(err)
		}
		checkAdmits(t, s, part)
	})
}

func TestPenaltyMistakes(t *testing.T) {
	limiter := testkit.Must(slidegate.New(newMemory(t)))(t)
	leased := slidegate.Limit{Quota: 100, Window: time.Minute, Algorithm: slidegate.FixedWindow, Lease: true}
	for _, test := range []struct {
		given Spec
		want  string
	}{
		{Spec{Name: "p", Limits: []slidegate.Limit{perMinute(1)}, Penalty: -1}, `policy "p": penalty: must not be negative, got -1ns`},
		{Spec{Name: "p", Limits: []slidegate.Limit{named("penalty", 1)}, Penalty: 1}, `policy "p": penalty: the policy has a limit named "penalty", which is the name of the penalty's own limit; give the limit another name`},
		{Spec{Name: "p", Limits: []slidegate.Limit{leased}, Penalty: time.Hour}, `policy "p": penalty: every request checks the penalty in the store, so a lease would save nothing; remove the lease or the penalty`},
	} {
		if _, err := New(limiter, []Spec{test.given}, Options{}); err == nil || err.Error() != test.want {
			t.Errorf("got %v\nwant %s", err, test.want)
		}
	}
}

// The penalty counts as one more of the limits that the store decides together.
func TestPenaltyIsCountedAmongTheLimits(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, penalized("p", 1, time.Hour))
	if most := s.policies[0].maxLimits(); most != 2 || len(s.BoundLimits(0)) != 2 {
		t.Errorf("got %d limits for a key, want 2", most)
	}
}
