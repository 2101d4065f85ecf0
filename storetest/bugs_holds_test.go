package storetest

import (
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// holdsBugs lose what reservations hold, or count it wrongly.
func holdsBugs() []bug {
	type change = func(r *Reference, l *rule.Limit, address string, now rule.Micros)
	changing := func(to func(l *rule.Limit, s *rule.State, now rule.Micros)) change {
		return func(r *Reference, l *rule.Limit, address string, now rule.Micros) {
			s := r.states[address].Clone()
			to(l, &s, now)
			r.states[address] = s
		}
	}
	drop := func(which func(l *rule.Limit, s *rule.State, now rule.Micros) bool) change {
		return changing(func(l *rule.Limit, s *rule.State, now rule.Micros) {
			if which(l, s, now) {
				s.Holds = nil
			}
		})
	}
	is := func(op rule.Op) func(*store.Request) bool { return func(r *store.Request) bool { return r.Op == op } }
	always := func(*store.Request) bool { return true }
	withoutHold := func(r *store.Request) {
		for i := range r.Charges {
			c := &r.Charges[i]
			l := *c.Limit.Rule()
			if l.Hold = 0; l != *c.Limit.Rule() {
				c.Limit = store.Bind(c.Limit.Namespace(), c.Limit.Name(), c.Limit.Label(), l)
			}
		}
	}
	const check = "holds"
	var n rule.ID
	return []bug{
		{"charges at the time of the reservation", check, misreading(withoutHold)},
		{"settles at the time of the reservation", check, deciding(func(r *Reference, request *store.Request) {
			r.decide(request)
			if c := request.Charges[0]; request.Op == rule.Settle && c.Used > 0 && request.Answers[0].Flags == 0 && c.Limit.Rule().Hold > 0 {
				r.decide(&store.Request{Op: rule.GiveBack, Group: request.Group, Charges: []store.Charge{{Limit: c.Limit, Key: c.Key, Cost: c.Used, At: rule.Oldest}}, Answers: make([]rule.Answer, 1)})
			}
		})},
		{"counts a hold twice", check, misreading(func(r *store.Request) {
			if n++; r.Op == rule.Take && r.Hold {
				r.ID += n << 20
			}
		})},
		{"renews after the settlement", check, misreading(func(r *store.Request) {
			if r.Op == rule.Renew {
				r.Op, r.Hold = rule.Take, true
			}
		})},
		{"does not renew", check, notDoing(rule.Renew)},
		{"drops holds at the edge of a fixed window", check, around(always, drop(func(l *rule.Limit, s *rule.State, now rule.Micros) bool {
			return l.Algorithm == rule.FixedWindow && s.InParts() && now >= s.Start+l.Window
		}), nil)},
		{"drops holds when the counts have expired", check, around(always, drop(func(l *rule.Limit, s *rule.State, now rule.Micros) bool {
			used := *s
			used.Holds = nil
			return l.Expires(&used) <= now
		}), nil)},
		{"counts holds for limits with hold only", check, around(always, drop(func(l *rule.Limit, _ *rule.State, _ rule.Micros) bool {
			return l.Hold == 0
		}), nil)},
		{"ends holds after the hold of the asking limit", check, around(always, changing(func(l *rule.Limit, s *rule.State, _ rule.Micros) {
			for i := range s.Holds {
				if h := &s.Holds[i]; l.Hold > 0 && h.Length != l.Hold {
					h.Ends += l.Hold - h.Length
					h.Length = l.Hold
				}
			}
		}), nil)},
		{"keeps holds a little longer", check, around(is(rule.Take), nil, changing(func(_ *rule.Limit, s *rule.State, _ rule.Micros) {
			for i := range s.Holds {
				s.Holds[i].Ends += s.Holds[i].Ends % 2
			}
		}))},
		{"keeps holds when it resets", check, deciding(func(r *Reference, request *store.Request) {
			r.mu.Lock()
			name := address(request.Charges[0].Limit.Prefix(), request.Group, request.Charges[0].Key)
			held := slices.Clone(r.states[name].Holds)
			r.mu.Unlock()
			r.decide(request)
			if request.Op == rule.Reset && len(held) > 0 {
				r.mu.Lock()
				r.states[name] = rule.State{Holds: held}
				r.mu.Unlock()
			}
		})},
		{"charges nothing for a lost hold", check, deciding(func(r *Reference, request *store.Request) {
			if c := &request.Charges[0]; request.Op == rule.Settle && c.Limit.Rule().Hold > 0 {
				r.mu.Lock()
				s := r.states[address(c.Limit.Prefix(), request.Group, c.Key)]
				now := r.clock.Now()
				r.mu.Unlock()
				if !slices.ContainsFunc(s.Holds, func(h rule.Hold) bool { return h.ID == request.ID && h.Ends > now }) {
					used := c.Used
					c.Used = 0
					r.decide(request)
					c.Used = used
					return
				}
			}
			r.decide(request)
		})},
		{"holds units of refused requests", check, deciding(func(r *Reference, request *store.Request) {
			for i := range request.Charges {
				r.decide(part(request, i))
			}
		})},
		{"holds more than it may", check, misanswering(func(_ rule.Op, _ store.Charge, a *rule.Answer, _ rule.Micros) {
			if a.Flags&rule.HoldsFull != 0 {
				a.Allowed, a.Flags, a.RetryAfter = true, 0, 0
			}
		})},
		{"does not say that holds refuse", check, misanswering(func(_ rule.Op, _ store.Charge, a *rule.Answer, _ rule.Micros) {
			a.Flags &^= rule.Held
		})},
		{"settles more than once at the same time", check, misreading(func(r *store.Request) {
			if n++; r.Op == rule.Settle && n%9 == 0 && len(r.Charges) == 1 && r.Charges[0].Cost == 3 {
				r.ID += n << 20
			}
		})},
	}
}

// onceBugs count a call again, or do not know it where they must.
func onceBugs() []bug {
	forgetting := func(which func(r *store.Request) bool) Open {
		return deciding(func(r *Reference, request *store.Request) {
			if which(request) {
				r.mu.Lock()
				clear(r.settled)
				r.mu.Unlock()
			}
			r.decide(request)
		})
	}
	isCall := func(r *store.Request) bool { return r.Op == rule.Take && r.Once }
	const check = "once"
	return []bug{
		{"charges a repeated call", check, misreading(func(r *store.Request) { r.Once = r.Once && r.Op != rule.Take })},
		{"forgets calls when a key is reset", check, forgetting(func(r *store.Request) bool { return r.Op == rule.Reset })},
		{"remembers refusals", check, deciding(func(r *Reference, request *store.Request) {
			if r.decide(request); isCall(request) && !request.Answers[0].Allowed && request.Answers[0].Flags == 0 {
				cancel := *request
				cancel.Op, cancel.Answers = rule.Settle, make([]rule.Answer, len(request.Charges))
				r.decide(&cancel)
			}
		})},
		{"forgets a cancellation before its call", check, deciding(func(r *Reference, request *store.Request) {
			if request.Op == rule.Settle && request.Once {
				r.mu.Lock()
				known := false
				for _, gs := range r.settled {
					for _, g := range gs {
						known = known || g.records[request.ID] != nil
					}
				}
				r.mu.Unlock()
				if !known {
					look := *request
					look.Op = rule.Peek
					r.decide(&look)
					return
				}
			}
			r.decide(request)
		})},
		{"answers a repeat with its own cost", check, misanswering(func(op rule.Op, c store.Charge, a *rule.Answer, _ rule.Micros) {
			if op == rule.Take && a.Allowed && a.Flags&rule.Repeated != 0 {
				a.Granted = c.Cost
			}
		})},
		{"answers a repeat with its own time", check, misanswering(func(op rule.Op, _ store.Charge, a *rule.Answer, now rule.Micros) {
			if op == rule.Take && a.Flags&rule.Repeated != 0 {
				a.At = now
			}
		})},
		{"finds calls by the hold of the limit", check, misreading(func(r *store.Request) {
			for _, c := range r.Charges {
				if r.Once && c.Limit.Rule().Hold == minute && c.Limit.Rule().Quota == 30 {
					r.ID++
				}
			}
		})},
		{"remembers no longer than the window", check, deciding(func(r *Reference, request *store.Request) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, known := range r.settled {
				if c := request.Charges[0]; r.clock.Now() >= known[0].Newest+c.Limit.Rule().Window {
					clear(known[0].records)
				}
			}
			r.decideLocked(request, r.clock.Now())
		})},
		{"does not say that it cannot remember", check, misanswering(func(_ rule.Op, _ store.Charge, a *rule.Answer, _ rule.Micros) {
			a.Flags &^= rule.NotOnce
		})},
		{"remembers forever", check, misanswering(func(_ rule.Op, _ store.Charge, a *rule.Answer, _ rule.Micros) {
			a.Flags &^= rule.Unsettled
		})},
		{"identifies a call by the last charge", check, deciding(func(r *Reference, request *store.Request) {
			if isCall(request) && len(request.Charges) > 1 {
				for i := range request.Charges {
					r.decide(part(request, i))
				}
				return
			}
			r.decide(request)
		})},
		{"looks before it charges", check, deciding(func(r *Reference, request *store.Request) {
			if !isCall(request) || len(request.Charges) > 1 {
				r.decide(request)
				return
			}
			r.mu.Lock()
			known := false
			for _, gs := range r.settled {
				for _, g := range gs {
					known = known || g.records[request.ID] != nil
				}
			}
			r.mu.Unlock()
			if yield(); !known {
				request.Once = false
				r.decide(request)
				request.Once = true
				return
			}
			r.decide(request)
		})},
	}
}
