package storetest

import (
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// otherLimitBugs cut what was used under a larger limit, or move the end of a bucket.
func otherLimitBugs() []bug {
	type cut = func(r *Reference, l *rule.Limit, address string, now rule.Micros)
	change := func(to func(l *rule.Limit, s *rule.State, now rule.Micros)) cut {
		return func(r *Reference, l *rule.Limit, address string, now rule.Micros) {
			s := r.states[address].Clone()
			to(l, &s, now)
			r.states[address] = s
		}
	}
	cutLog := change(func(l *rule.Limit, s *rule.State, _ rule.Micros) {
		if l.Algorithm == rule.SlidingLog {
			var newest rule.Log
			newest.Restart(int(l.Quota), l.Window)
			for i := max(0, s.Log.Len()-int(l.Quota)); i < s.Log.Len(); i++ {
				newest.Append(s.Log.Time(i))
			}
			s.Log = newest
		}
	})
	cutDebt := change(func(l *rule.Limit, s *rule.State, _ rule.Micros) {
		if l.Algorithm == rule.TokenBucket && s.Missing >= l.Burst+l.Quota {
			s.Missing, s.Rest = l.Burst+l.Quota, 0
		}
	})
	cutSlots := change(func(l *rule.Limit, s *rule.State, _ rule.Micros) {
		if n := len(s.Slots) - int(l.Quota); l.Algorithm == rule.InFlight && n > 0 {
			s.Slots = s.Slots[n:]
		}
	})
	refill := change(func(l *rule.Limit, s *rule.State, now rule.Micros) {
		if refilled := l.Quota * int64(now-s.Start) / int64(l.Window); l.Algorithm == rule.TokenBucket && s.Missing > 0 && s.Start < now && l.Quota <= 1000 {
			s.Missing, s.Start = max(0, s.Missing-refilled), now
		}
	})
	restartEnd := change(func(l *rule.Limit, s *rule.State, now rule.Micros) {
		if l.Algorithm == rule.TokenBucket && s.Missing > 0 && l.Quota <= 1000 {
			s.Until = now + max(l.Window, l.Window/rule.Micros(l.Quota)*rule.Micros(min(s.Missing, l.Burst+l.Quota)))
		}
	})
	always := func(*store.Request) bool { return true }
	back := func(request *store.Request) bool { return request.Op == rule.GiveBack || request.Op == rule.Settle }
	before := func(when func(*store.Request) bool, do cut) Open { return around(when, do, nil) }
	after := func(when func(*store.Request) bool, do cut) Open { return around(when, nil, do) }
	const check = "other-limit"
	return []bug{
		{"counts no more units of a log than the quota", check, before(always, cutLog)},
		{"cuts a log when it settles", check, before(back, cutLog)},
		{"cuts a log when it charges", check, before(func(r *store.Request) bool { return r.Op == rule.Charge }, cutLog)},
		{"cuts a bucket's debt", check, before(always, cutDebt)},
		{"cuts a bucket's debt when it settles", check, before(back, cutDebt)},
		{"drops slots beyond the number of slots", check, before(always, cutSlots)},
		{"drops slots when it renews", check, before(func(r *store.Request) bool { return r.Op == rule.Renew }, cutSlots)},
		{"refills a bucket at the rate of the reservation", check, before(back, refill)},
		{"restarts the end of a bucket when it gives back", check, after(back, restartEnd)},
		{"restarts the end of a bucket when it refuses", check, after(func(r *store.Request) bool {
			return r.Op == rule.Take && !r.Answers[0].Allowed && r.Charges[0].Limit.Rule().CountRefused
		}, restartEnd)},
	}
}

// around opens stores that change the states of some requests before or after they decide.
func around(when func(*store.Request) bool, before, after func(r *Reference, l *rule.Limit, address string, now rule.Micros)) Open {
	return deciding(func(r *Reference, request *store.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		now := r.clock.Now()
		each := func(do func(r *Reference, l *rule.Limit, address string, now rule.Micros)) {
			if do == nil || !when(request) {
				return
			}
			for _, charge := range request.Charges {
				do(r, charge.Limit.Rule(), address(charge.Limit.Prefix(), request.Group, charge.Key), now)
			}
		}
		each(before)
		r.decideLocked(request, now)
		each(after)
	})
}
