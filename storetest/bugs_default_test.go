package storetest

import (
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// defaultBugs forget units of limits that name no algorithm when a quota crosses 100, or take those of others.
func defaultBugs() []bug {
	type change = func(r *Reference, l *rule.Limit, address string, now rule.Micros)
	ofDefault := func(change func(l *rule.Limit, s *rule.State, now rule.Micros)) change {
		return func(r *Reference, l *rule.Limit, address string, now rule.Micros) {
			if l.Algorithm != rule.DefaultAlgorithm {
				return
			}
			s := r.states[address].Clone()
			change(l, &s, now)
			r.states[address] = s
		}
	}
	cutLog := ofDefault(func(l *rule.Limit, s *rule.State, _ rule.Micros) {
		if n := s.Log.Len() - int(l.Quota); !s.InParts() && n > 0 {
			var newest rule.Log
			newest.Restart(int(l.Quota), l.Window)
			for i := range int(l.Quota) {
				newest.Append(s.Log.Time(n + i))
			}
			s.Log = newest
		}
	})
	toParts := ofDefault(func(l *rule.Limit, s *rule.State, now rule.Micros) {
		if large := (&rule.Limit{Quota: 101, Window: l.Window}); l.Quota > rule.DefaultLog && !s.InParts() && s.Log.Len() > 0 {
			convert(large, s, now)
		}
	})
	toLog := ofDefault(func(l *rule.Limit, s *rule.State, now rule.Micros) {
		used := min(l.Used(s, now), rule.DefaultLog)
		if l.Quota > rule.DefaultLog || !s.InParts() || used == 0 {
			return
		}
		at := max(now, s.Start)
		*s = rule.State{}
		s.Log.Restart(int(used), l.Window)
		for range used {
			s.Log.Append(at)
		}
	})
	after := func(op func(r *store.Request) bool, do change) Open { return around(op, nil, do) }
	before := func(op func(r *store.Request) bool, do change) Open { return around(op, do, nil) }
	always := func(*store.Request) bool { return true }
	is := func(op rule.Op) func(*store.Request) bool {
		return func(r *store.Request) bool { return r.Op == op }
	}
	const check = "default"
	return []bug{
		{"has another address above 100", check, misaddressing(func(_ *string, c *store.Charge) {
			if l := c.Limit.Rule(); l.Algorithm == rule.DefaultAlgorithm && l.Quota > rule.DefaultLog {
				c.Key += " large"
			}
		})},
		{"cuts a log to the quota when it charges", check, before(is(rule.Charge), cutLog)},
		{"cuts a log to the quota when it gives back", check, before(is(rule.GiveBack), cutLog)},
		{"cuts a log to the quota when it counts a refusal", check, after(func(r *store.Request) bool {
			return r.Op == rule.Take && !r.Answers[0].Allowed && r.Charges[0].Limit.Rule().CountRefused
		}, cutLog)},
		{"turns a log into parts when it refuses", check, after(func(r *store.Request) bool {
			return r.Op == rule.Take && !r.Answers[0].Allowed
		}, toParts)},
		{"turns a log into parts when it peeks", check, after(is(rule.Peek), toParts)},
		{"turns a log into parts when it settles", check, after(is(rule.Settle), toParts)},
		{"turns a log into parts when another limit refuses", check, after(func(r *store.Request) bool {
			return r.Op == rule.Take && len(r.Charges) > 1 && !r.Answers[1].Allowed
		}, toParts)},
		{"turns parts into a log under a small quota", check, before(always, toLog)},
		{"gives back what left the window", check, misreading(func(r *store.Request) {
			for i := range r.Charges {
				if c := &r.Charges[i]; r.Op == rule.Settle && c.Limit.Rule().Algorithm == rule.DefaultAlgorithm {
					c.At += c.Limit.Rule().Window / 60
				}
			}
		})},
		{"ignores lease", check, misreading(func(r *store.Request) {
			for i := range r.Charges {
				c := &r.Charges[i]
				l := *c.Limit.Rule()
				if l.Lease = false; l != *c.Limit.Rule() {
					c.Limit = store.Bind(c.Limit.Namespace(), c.Limit.Name(), c.Limit.Label(), l)
				}
			}
		})},
	}
}

// convert turns the log of a default into parts, as a charge would.
func convert(large *rule.Limit, s *rule.State, now rule.Micros) {
	l, err := large.Normalize()
	if err != nil {
		panic(err)
	}
	item := []rule.Item{{Limit: &l, State: s, Cost: 1}}
	answers := make([]rule.Answer, 1)
	rule.Decide(rule.Charge, item, now, answers)
	item[0].At = answers[0].At
	rule.Decide(rule.GiveBack, item, now, answers)
}
