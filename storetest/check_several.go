package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkSeveralLimits: a request over several limits is charged to all of them or to none.
func checkSeveralLimits(t testing.TB, s *suite) {
	p := s.pair(t)
	most := p.store.Traits().MaxCharges
	if most == 1 {
		t.Skip("Traits.MaxCharges is 1: the store decides no request over several limits")
	}
	checkRefusalChargesNone(p)
	checkCountsOwnRefusals(p)
	checkWithoutGroup(p)
	all, small := catalogue(), smallLimits()
	for i := range s.times(25) {
		// Neighbors in the catalogue differ in one option, those far apart in the algorithm.
		limits := []slidegate.Limit{all[i], all[len(all)-1-i], all[len(all)-7-i/2], small[i%len(small)]}
		if q := p.sequence(i, everyOp, limits...); q != nil {
			q.group, q.maxCharges = "group", min(4, most)
			q.play(60)
		}
	}
	for i, limit := range append(slots(), calendars()...) { // together with a rate
		q := p.sequenceOf(500+i, everyOp, limit)
		if rate := p.sequence(500+i, everyOp, small[i%len(small)]); q != nil && rate != nil {
			q.group, q.maxCharges, q.subjects = "group", 2, append(q.subjects, rate.subjects...)
			q.play(s.times(60))
		}
	}
	if q := p.sequence(1_000, everyOp, all[:min(most, 10)]...); q != nil && most > 4 {
		q.group, q.maxCharges = "group", 10
		q.play(s.times(50))
	}
}

// checkRefusalChargesNone: when one limit refuses a request, the others stay as they were, in any order and even if they
// had no state.
func checkRefusalChargesNone(p *pair) {
	p.t.Helper()
	for i, other := range smallLimits() {
		p.forgetSubjects()
		other.Name = "other"
		full, limit := p.bind(slidegate.Limit{Name: "full", Quota: 2, Window: time.Hour, Algorithm: slidegate.SlidingWindow}), p.bind(other)
		if full == nil || limit == nil {
			continue
		}
		group := "refusal-" + string(rune('a'+i))
		charge := func(limit *store.Limit, key string, cost int64) store.Charge {
			return store.Charge{Limit: limit, Key: key, Cost: cost}
		}
		expect := func(key string, used int64) {
			p.t.Helper()
			if a := p.both(rule.Peek, group, charge(limit, key, 1))[0]; a.Remaining != other.Quota-used {
				p.fatalf("after a refused request %d units of another limit remain, want %d", a.Remaining, other.Quota-used)
			}
		}
		p.both(rule.Take, group, charge(full, "x", 2), charge(limit, "known", 2))
		for _, key := range []string{"known", "unknown"} {
			p.both(rule.Take, group, charge(full, "x", 1), charge(limit, key, 3))
			p.both(rule.Take, group, charge(limit, key, 3), charge(full, "x", 1))
			p.both(rule.TakeUpTo, group, charge(limit, key, 3), charge(full, "x", 5))
		}
		expect("known", 2)
		expect("unknown", 0)
		// If the refusal had started the unknown key's window, that window would end earlier than the reference's.
		p.moveBy(limit.Rule().Window / 3)
		p.both(rule.Take, group, charge(limit, "unknown", 1))
		expect("unknown", 1)
	}
}

// checkCountsOwnRefusals: a limit that counts refusals counts its own only.
func checkCountsOwnRefusals(p *pair) {
	p.t.Helper()
	p.forgetSubjects()
	plain := p.bind(slidegate.Limit{Name: "plain", Quota: 1, Window: time.Hour})
	counts := p.bind(slidegate.Limit{Name: "counts", Quota: 5, Window: time.Hour, Segments: 6, CountRefused: true})
	if plain == nil || counts == nil {
		return
	}
	take := func(ofPlain, ofCounts int64) []rule.Answer {
		p.t.Helper()
		return p.both(rule.Take, "own", store.Charge{Limit: plain, Key: "x", Cost: ofPlain},
			store.Charge{Limit: counts, Key: "x", Cost: ofCounts})
	}
	take(1, 1)
	if a := take(1, 2); a[0].Allowed || !a[1].Allowed || a[1].Remaining != 4 {
		p.fatalf("a refusal by the limit that does not count refusals: got %+v, want 4 units left of the other one", a)
	}
	if a := take(0, 5); !a[0].Allowed || a[1].Allowed || a[1].Remaining != 0 {
		p.fatalf("a refusal by the limit that counts refusals: got %+v, want none of its units left", a)
	}
}

// checkWithoutGroup: a request over several keys needs no group if one node holds them all. A store of several nodes
// returns an error that says it needs one, and so does a store with the trait OneKey, which still accepts several limits of
// one key.
func checkWithoutGroup(p *pair) {
	p.t.Helper()
	p.forgetSubjects()
	limits := p.bindAll(slidegate.Limit{Name: "a", Quota: 3, Window: time.Hour},
		slidegate.Limit{Name: "b", Quota: 2, Window: time.Hour})
	if len(limits) < 2 {
		return
	}
	charges := []store.Charge{{Limit: limits[0], Key: "x", Cost: 1}, {Limit: limits[1], Key: "y", Cost: 1}}
	_, err := decide(context.Background(), p.store.Apply, rule.Peek, "", charges...)
	if p.store.Traits().OneKey {
		if !errors.Is(err, store.ErrUnsupported) {
			p.fatalf("Traits.OneKey is set, and two keys without a group: got %v, want ErrUnsupported", err)
		}
		charges[1].Key = charges[0].Key
	} else if errors.Is(err, store.ErrUnsupported) {
		p.t.Logf("not checked: several keys without a group: %v", err)
		return
	}
	for range 3 {
		p.both(rule.Take, "", charges...)
	}
}
