package engine

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// rulingPolicy has everything that a ruling takes precedence over.
func rulingPolicy() Spec {
	return Spec{
		Name: "p", Limits: []slidegate.Limit{named("", 2)},
		Overrides: []policy.Override{{Key: "vip", Limits: []slidegate.Limit{named("", 3)}}},
		Allow:     policy.List{Keys: []string{"friend"}, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		Block:     policy.List{Keys: []string{"foe"}},
	}
}

func mustRule(t testing.TB, s *Set, rulings ...Ruling) {
	t.Helper()
	if err := s.SetRulings(0, rulings); err != nil {
		t.Fatal(err)
	}
}

// A ruling takes precedence over lists, overrides and plans, and only for its own key.
func TestRulingGoesFirst(t *testing.T) {
	nine := []slidegate.Limit{named("", 9)}
	for _, given := range []Spec{rulingPolicy(), {Name: "p", Limits: []slidegate.Limit{named("", 2)}}} {
		set := newSet(t, newMemory(t), Options{}, given)
		for _, key := range []string{"ann", "vip", "friend", "foe"} {
			before := take(t, set, Part{Key: key, Cost: 1})
			part := Part{Key: key, Cost: 1, Plan: policy.Limits(named("", 7)), Address: netip.MustParseAddr("192.0.2.1")}
			mustRule(t, set, Ruling{Key: key, Refused: true})
			if v := take(t, set, part); !v.Refused || v.By != policy.ByRuling || v.Decision.RetryAfter != slidegate.Never || !v.Forbidden() || v.Policy != "p" {
				t.Errorf("%s, blocked: got %+v, want it forbidden by the ruling forever", key, v)
			}
			if v := take(t, set, Part{Key: "other", Cost: 0}); v.By != policy.ByLimits {
				t.Errorf("another key while %s is blocked: got %+v, want it decided by the limits", key, v)
			}
			mustRule(t, set, Ruling{Key: key, Unlimited: true})
			if v := take(t, set, part); v.Refused || v.By != policy.ByUnlimited || v.Decision.Granted != 1 {
				t.Errorf("%s, unlimited: got %+v, want it admitted without limits", key, v)
			}
			mustRule(t, set, Ruling{Key: key, Limits: nine})
			if v := take(t, set, part); v.Refused || v.By != policy.ByLimits || v.Decision.Quota != 9 {
				t.Errorf("%s, other limits: got %+v, want a quota of 9", key, v)
			}
			mustRule(t, set)
			if v := take(t, set, Part{Key: key, Cost: 1}); v.By != before.By {
				t.Errorf("%s, without a ruling again: got %+v, want it decided by %v", key, v, before.By)
			}
		}
	}
}

// A key whose quota is raised or lowered by a ruling keeps its usage, before and after.
func TestRulingKeepsCounts(t *testing.T) {
	set := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 2)}})
	take(t, set, Part{Key: "ann", Cost: 2})
	mustRule(t, set, Ruling{Key: "ann", Limits: []slidegate.Limit{named("", 5)}})
	if v := take(t, set, Part{Key: "ann", Cost: 1}); v.Refused || v.Decision.Remaining != 2 {
		t.Errorf("raised from 2 to 5 after 2 units: got %+v, want one more admitted and 2 remaining", v)
	}
	mustRule(t, set, Ruling{Key: "ann", Limits: []slidegate.Limit{named("", 1)}})
	if v := take(t, set, Part{Key: "ann", Cost: 1}); !v.Refused || v.Forbidden() {
		t.Errorf("lowered to 1: got %+v, want it refused by the limit", v)
	}
	mustRule(t, set)
	if v := take(t, set, Part{Key: "ann", Cost: 1}); !v.Refused {
		t.Errorf("with 3 of 2 units used: got %+v, want it refused", v)
	}
}

// A key that a penalty keeps out is admitted under a ruling, and kept out again if the ruling ends before the penalty
// does.
func TestRulingGoesBeforePenalty(t *testing.T) {
	set := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 2)}, Penalty: time.Hour})
	for range 3 {
		take(t, set, Part{Key: "ann", Cost: 1})
	}
	mustRule(t, set, Ruling{Key: "ann", Limits: []slidegate.Limit{named("", 9)}})
	for way, v := range map[string]policy.Decision{"alone": take(t, set, Part{Key: "ann", Cost: 1}), "up to": verdictOf(t, set, rule.TakeUpTo)} {
		if v.Refused {
			t.Errorf("%s, raised: got %+v, want it admitted", way, v)
		}
	}
	mustRule(t, set)
	if v := take(t, set, Part{Key: "ann", Cost: 1}); !v.Refused {
		t.Errorf("without the ruling: got %+v, want it kept out", v)
	}
}

func verdictOf(t *testing.T, s *Set, op rule.Op) (v policy.Decision) {
	s.Decide(t.Context(), op, &Part{Key: "ann", Cost: 1}, &v)
	return v
}

// All rulings end at their time, by every method, and a block reports when that is.
func TestRulingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 100)}}, Spec{Name: "q", Limits: []slidegate.Limit{named("", 100)}})
		end := time.Now().Add(time.Minute)
		mustRule(t, set,
			Ruling{Key: "bad", Refused: true, Until: end}, Ruling{Key: "free", Unlimited: true, Until: end},
			Ruling{Key: "more", Limits: []slidegate.Limit{named("", 200)}, Until: end})
		check := func(ruled bool, left time.Duration) {
			t.Helper()
			for way, v := range verdictsOfAllMethods(t, set, "bad") {
				if ruled && (!v.Refused || v.By != policy.ByRuling || v.Decision.RetryAfter != left || v.Forbidden()) || !ruled && v.Refused {
					t.Errorf("%s, blocked %v: got %+v, want to retry after %v", way, ruled, v, left)
				}
			}
			for way, v := range verdictsOfAllMethods(t, set, "free") {
				if ruled != (v.By == policy.ByUnlimited) && way != "together" || v.Refused {
					t.Errorf("%s, unlimited %v: got %+v", way, ruled, v)
				}
			}
			if v := take(t, set, Part{Key: "more", Cost: 0}); ruled != (v.Decision.Quota == 200) {
				t.Errorf("raised %v: got %+v", ruled, v)
			}
		}
		check(true, time.Minute)
		testkit.Pass(time.Minute - time.Microsecond)
		check(true, time.Microsecond)
		testkit.Pass(time.Microsecond)
		check(false, 0)
	})
}

// verdictsOfAllMethods returns the verdicts on a key of the first policy by each method.
func verdictsOfAllMethods(t *testing.T, s *Set, key string) map[string]policy.Decision {
	verdicts := map[string]policy.Decision{"alone": take(t, s, Part{Key: key, Cost: 1})}
	for way, op := range map[string]rule.Op{"up to": rule.TakeUpTo, "peek": rule.Peek} {
		var v policy.Decision
		s.Decide(t.Context(), op, &Part{Key: key, Cost: 1}, &v)
		verdicts[way] = v
	}
	var batch [1]policy.Decision
	s.DecideBatch(t.Context(), []Part{{Key: key, Cost: 1}}, batch[:])
	verdicts["batch"] = batch[0]
	request := s.Begin()
	defer request.End()
	request.Add(Part{Policy: 1, Key: key, Cost: 1})
	request.Add(Part{Key: key, Cost: 1})
	var together policy.Decision
	request.Decide(t.Context(), rule.Take, &together)
	verdicts["together"] = together
	return verdicts
}

// A block refuses without a call to the store, so that it also holds while the store is down.
func TestBlockCallsNoStore(t *testing.T) {
	down := &faultyStore{Store: newMemory(t), trips: 1, err: errDown}
	set := newSet(t, down, Options{Failure: store.FailOpen}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 2)}}, Spec{Name: "q", Limits: []slidegate.Limit{named("", 2)}})
	mustRule(t, set, Ruling{Key: "bad", Refused: true})
	calls := down.calls.Load()
	for way, v := range verdictsOfAllMethods(t, set, "bad") {
		if !v.Refused || v.Err != nil {
			t.Errorf("%s, with the store down: got %+v, want it refused without an error", way, v)
		}
	}
	if n := down.calls.Load() - calls; n != 0 {
		t.Errorf("the store was called %d times for a blocked key", n)
	}
}

// Units of requests from before a block are still refunded and charged, and reservations are settled.
func TestBlockLetsRequestsEnd(t *testing.T) {
	decide := func(set *Set, op rule.Op, cost int64) (v policy.Decision) {
		set.Decide(t.Context(), op, &Part{Key: "ann", Cost: cost}, &v)
		return v
	}
	set := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 10)}})
	request := set.Begin()
	request.Add(Part{Key: "ann", Cost: 4, Hold: true})
	var v policy.Decision
	request.Decide(t.Context(), rule.Take, &v)
	mustRule(t, set, Ruling{Key: "ann", Refused: true})
	if err := settleNow(t, request, func(int, int64) int64 { return 3 }); err != nil {
		t.Error(err)
	}
	request.End()
	if v := decide(set, rule.Charge, 2); v.By != policy.ByLimits || v.Decision.Remaining != 5 {
		t.Errorf("charged 2 after 3 while blocked: got %+v, want 5 remaining", v)
	}
	if v := decide(set, rule.GiveBack, 1); v.Decision.Granted != 1 {
		t.Errorf("refunded while blocked: got %+v, want 1 granted", v)
	}
	if err := set.Reset(t.Context(), "", Part{Key: "ann"}); err != nil {
		t.Error(err)
	}
	mustRule(t, set)
	if v := take(t, set, Part{Key: "ann", Cost: 10}); v.Refused {
		t.Errorf("after a reset while blocked: got %+v, want all of the quota", v)
	}
}

// Resetting a key also resets its usage of the limits of a ruling, even if they have their own counts.
func TestResetUnderRuling(t *testing.T) {
	set := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 2)}})
	mustRule(t, set, Ruling{Key: "ann", Limits: []slidegate.Limit{{Name: "burst", Quota: 3, Window: time.Minute}}})
	for name, reset := range map[string]func(){
		"reset":  func() { set.Decide(t.Context(), rule.Reset, &Part{Key: "ann"}, new(policy.Decision)) },
		"forget": func() { _ = set.Reset(context.Background(), "", Part{Key: "ann"}) },
	} {
		if v := take(t, set, Part{Key: "ann", Cost: 3}); v.Refused {
			t.Errorf("%s: got %+v, want all 3 admitted", name, v)
		}
		reset()
	}
	if v := take(t, set, Part{Key: "ann", Cost: 3}); v.Refused {
		t.Errorf("got %+v, want all 3 admitted after a reset", v)
	}
}

func TestBadRulings(t *testing.T) {
	set := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 2)}})
	mustRule(t, set, Ruling{Key: "bad", Refused: true})
	slots := slidegate.MustParseLimit("3 in-flight ttl=30s")
	tooMany := make([]slidegate.Limit, 64+1)
	for i := range tooMany {
		tooMany[i] = slidegate.Limit{Quota: 1, Window: time.Duration(i+1) * time.Second}
	}
	for name, wrong := range map[string]struct {
		ruling Ruling
		err    error
	}{
		"nothing":         {Ruling{}, slidegate.ErrLimit},
		"two things":      {Ruling{Refused: true, Unlimited: true}, slidegate.ErrLimit},
		"limits, blocked": {Ruling{Refused: true, Limits: []slidegate.Limit{named("", 1)}}, slidegate.ErrLimit},
		"no limit":        {Ruling{Limits: []slidegate.Limit{{}}}, slidegate.ErrLimit},
		"slots":           {Ruling{Limits: []slidegate.Limit{slots}}, slidegate.ErrUnsupported},
		"too many":        {Ruling{Limits: tooMany}, slidegate.ErrUnsupported},
	} {
		for way, err := range map[string]error{
			"check": set.CheckRuling(0, wrong.ruling), "rule": set.SetRulings(0, []Ruling{{Key: "good", Refused: true}, wrong.ruling}),
		} {
			if !errors.Is(err, wrong.err) {
				t.Errorf("%s, %s: got %v, want %v", name, way, err, wrong.err)
			}
		}
	}
	_, bad := set.RulingOf(0, "bad")
	if _, good := set.RulingOf(0, "good"); !bad || good {
		t.Error("rulings with an invalid one were applied in part")
	}
}

// About a key, a ruling about the key itself precedes one about a prefix, and a long prefix a short one, whether they mean one
// alternative or several. Outranking names the rulings that precede.
func TestRulingsByLength(t *testing.T) {
	form := keyform.FirstOf(keyform.Part{Name: "header:X-User", Form: keyform.Text}, keyform.Part{Name: "address", Mark: "address:", Form: keyform.Address(clientip.Grouping{})})
	for _, c := range []struct {
		free, blocked, key string
		admitted           bool
		outranking         []string // of the block
	}{
		{"address:203.0.113.0/24", "address:203.0.113.7", "address:203.0.113.7", false, nil},
		{"address:203.0.113.0/24", "address:203.0.0.0/16", "address:203.0.113.7", true, []string{"address:203.0.113.0/24"}},
		{"address:10.1.0.0/16", "address:10.0.0.0/8", "address:10.1.2.3", true, []string{"address:10.1.0.0/16"}},
		{"address:10.1.0.0/16", "address:10.0.0.0/8", "address:10.2.2.3", false, []string{"address:10.1.0.0/16"}},
		{"address:10.0.0.0/8", "address:10.1.0.0/16", "address:10.1.2.3", false, nil},
		{"address:10.1.2.3", "address:10.0.0.0/8", "address:10.1.2.3", true, []string{"address:10.1.2.3"}},
		{"address:10.1.2.3", "10.1.2.3", "address:10.1.2.3", true, nil}, // a name that looks like an address
		{"address:10.1.2.3", "10.1.2.3", "10.1.2.3", false, nil},
		{"address:10.1.2.3", "address:192.0.2.0/24", "address:192.0.2.1", false, nil},
	} {
		set := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Form: form, Limits: []slidegate.Limit{named("", 2)}})
		for _, order := range [][]Ruling{
			{{Key: c.free, Unlimited: true}, {Key: c.blocked, Refused: true}},
			{{Key: c.blocked, Refused: true}, {Key: c.free, Unlimited: true}},
		} {
			mustRule(t, set, order...)
			if v := take(t, set, Part{Key: c.key, Cost: 1}); v.Refused == c.admitted {
				t.Errorf("%s unlimited, %s blocked: %s: got %v by %v, want admitted %v", c.free, c.blocked, c.key, v.Refused, v.By, c.admitted)
			}
			if got := set.Outranking(0, c.blocked); !slices.Equal(got, c.outranking) {
				t.Errorf("%s unlimited, %s blocked: got %q before the block, want %q", c.free, c.blocked, got, c.outranking)
			}
		}
		mustRule(t, set, Ruling{Key: c.free, Unlimited: true, Until: time.Now().Add(-time.Hour)}, Ruling{Key: c.blocked, Refused: true})
		if got := set.Outranking(0, c.blocked); got != nil {
			t.Errorf("%s ended, %s blocked: got %q before the block, want none", c.free, c.blocked, got)
		}
	}
}
