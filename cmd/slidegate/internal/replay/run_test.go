package replay

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that the outcome of each key follows from the decisions.

// plainLockout is a period in which a key was locked out.
type plainLockout struct {
	Lockout
	known int // the number of requests seen when its length was known
}

// lockoutsOf returns all lock-outs of one key, in traffic that is in order.
func lockoutsOf(decided []modelDecision, key string) (all []plainLockout) {
	var from, opens rule.Micros // of the current lock-out
	end := func(at rule.Micros, known int) {
		if from != 0 {
			all = append(all, plainLockout{Lockout{Key: key, From: from, Length: at - from}, known})
		}
		from, opens = 0, 0
	}
	for i, v := range decided {
		switch {
		case v.key != key:
		case v.allowed && v.cost > 0:
			end(min(v.at, opens), i)
		case !v.allowed:
			if v.at > opens {
				end(opens, i) // it would have been admitted in between
			}
			if from == 0 {
				from = v.at
			}
			for _, a := range append(v.answers, rule.Answer{}) {
				if !a.Allowed && a.RetryAfter != rule.Never {
					opens = max(opens, v.at+a.RetryAfter)
				}
			}
		}
	}
	end(opens, len(decided))
	for i := range all {
		all[i].Ended = all[i].From+all[i].Length <= decided[len(decided)-1].at
	}
	return all
}

// plainOutcome counts decisions. It leaves out the measures of each limit.
func plainOutcome(decided []modelDecision, top int) Outcome {
	o := Outcome{TopRefused: []KeyOutcome{}}
	var keys []string
	var longest []plainLockout
	for _, v := range decided {
		if v.allowed {
			o.Admitted++
			o.UnitsAdmitted += v.cost
		} else {
			o.Refused++
			o.UnitsRefused += v.cost
		}
		if !slices.Contains(keys, v.key) {
			keys = append(keys, v.key)
		}
	}
	for _, key := range keys {
		own := KeyOutcome{Key: key}
		for _, v := range decided {
			if v.key == key {
				own.Requests++
				if !v.allowed {
					own.Refused++
				}
			}
		}
		for _, l := range lockoutsOf(decided, key) {
			own.Lockout = max(own.Lockout, l.Length)
			longest = append(longest, l)
		}
		if own.Refused > 0 {
			o.KeysTouched++
			o.TopRefused = append(o.TopRefused, own)
		}
	}
	slices.SortStableFunc(o.TopRefused, func(a, b KeyOutcome) int { return cmp.Compare(b.Refused, a.Refused) })
	o.TopRefused = o.TopRefused[:min(top, len(o.TopRefused))]
	slices.SortStableFunc(longest, func(a, b plainLockout) int {
		return cmp.Or(cmp.Compare(b.Length, a.Length), cmp.Compare(a.known, b.known))
	})
	if len(longest) > 0 && longest[0].Length > 0 {
		o.Lockout = longest[0].Lockout
	}
	return o
}

func TestOutcomeIsAPlainCount(t *testing.T) {
	property(t, 700, func(t *rapid.T) {
		limits := drawLimits(t)
		reqs := drawTraffic(t, limits[0].Window, 80, forward)
		top := rapid.IntRange(0, 5).Draw(t, "top")
		got := find(t, Options{Limits: limits, Top: top}, reqs).Outcome
		want := plainOutcome(decideAll(t, limits, reqs), top)
		want.Limits = got.Limits // they have separate tests
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v:\n%+v, want\n%+v\n%+v", limits, got, want, reqs)
		}
	})
}

// Whatever the clock does, the counts add up and no lock-out is negative.
func TestOutcomeWithAnyClock(t *testing.T) {
	property(t, 300, func(t *rapid.T) {
		limits := drawLimits(t)
		reqs := drawTraffic(t, limits[0].Window, 80, jumping)
		got := find(t, Options{Limits: limits, Top: 4}, reqs).Outcome
		want := plainOutcome(decideAll(t, limits, reqs), 4)
		want.Limits, want.Lockout = got.Limits, got.Lockout
		for i := range want.TopRefused {
			if got.TopRefused[i].Lockout < 0 || got.TopRefused[i].Lockout > got.Lockout.Length {
				t.Fatalf("got %+v, but the longest is %+v", got.TopRefused[i], got.Lockout)
			}
			want.TopRefused[i].Lockout = got.TopRefused[i].Lockout
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v:\n%+v, want\n%+v\n%+v", limits, got, want, reqs)
		}
	})
}

func TestLockoutsByHand(t *testing.T) {
	const text = "1/1m sliding-log"
	for name, c := range map[string]struct {
		reqs []testRequest
		want Lockout
	}{
		"none": {
			[]testRequest{{origin, "a", 1}, {origin + minute, "a", 1}},
			Lockout{},
		},
		"until its next admission": {
			[]testRequest{{origin, "a", 1}, {origin + 10*second, "a", 1}, {origin + 30*second, "a", 1}, {origin + 60*second, "a", 1}},
			Lockout{"", "a", origin + 10*second, 50 * second, true},
		},
		"until it would have been admitted": {
			[]testRequest{{origin, "a", 1}, {origin + 10*second, "a", 1}, {origin + hour, "a", 1}},
			Lockout{"", "a", origin + 10*second, 50 * second, true},
		},
		"longer than the traffic": {
			[]testRequest{{origin, "a", 1}, {origin + 10*second, "a", 1}, {origin + 20*second, "a", 1}},
			Lockout{"", "a", origin + 10*second, 50 * second, false},
		},
		"over without another request": {
			[]testRequest{{origin, "a", 1}, {origin + 10*second, "a", 1}, {origin + hour, "b", 1}},
			Lockout{"", "a", origin + 10*second, 50 * second, true},
		},
		"a peek does not end it": {
			[]testRequest{{origin, "a", 1}, {origin + 10*second, "a", 1}, {origin + 20*second, "a", 0}, {origin + 60*second, "a", 1}},
			Lockout{"", "a", origin + 10*second, 50 * second, true},
		},
		"a request that is never admitted locks no key out": {
			[]testRequest{{origin, "a", 2}, {origin + second, "a", 2}, {origin + hour, "a", 1}},
			Lockout{},
		},
		"the first of the longest": {
			[]testRequest{
				{origin, "a", 1}, {origin, "b", 1}, {origin + 10*second, "b", 1}, {origin + 10*second, "a", 1},
				{origin + 60*second, "a", 1}, {origin + 60*second, "b", 1}, {origin + 70*second, "a", 1}, {origin + 120*second, "a", 1},
			},
			Lockout{"", "a", origin + 10*second, 50 * second, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}}, c.reqs).Outcome.Lockout
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	// If refusals count, each delays the next admission.
	reqs := []testRequest{{origin, "a", 1}, {origin + 50*second, "a", 1}, {origin + 100*second, "a", 1}}
	got := find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text + " count-refused")}}, reqs).Outcome.Lockout
	if want := (Lockout{"", "a", origin + 50*second, 110 * second, false}); got != want {
		t.Errorf("with refusals that count: got %+v, want %+v", got, want)
	}
}

// The most refused key is first; among equals, the one that came first, whether or not it was refused first.
func TestTopRefusedByHand(t *testing.T) {
	var reqs []testRequest
	for _, key := range []string{"c", "a", "b", "d", "e", "a", "b", "d", "d", "c", "c", "f", "f", "f", "f"} {
		reqs = append(reqs, testRequest{origin, key, 1}) // refused: a 1, b 1, c 2, d 2, e 0, f 3
	}
	for top, want := range [][]string{{}, {"f"}, {"f", "c"}, {"f", "c", "d"}, {"f", "c", "d", "a"}, {"f", "c", "d", "a", "b"}, {"f", "c", "d", "a", "b"}} {
		got := []string{}
		found := find(t, Options{Limits: []slidegate.Limit{slidegate.PerMinute(1)}, Top: top}, reqs).Outcome
		for _, k := range found.TopRefused {
			got = append(got, k.Key)
		}
		if !slices.Equal(got, want) || found.KeysTouched != 5 {
			t.Errorf("top %d of %d: got %v, want %v of 5", top, found.KeysTouched, got, want)
		}
	}
}
