package storetest

import (
	"context"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Bugs in what outlives a request: settlements, slots, and windows that other requests use.

// forgettingSettlements opens stores that lose their settlements when forget returns true.
func forgettingSettlements(forget func(request *store.Request, known int) bool) Open {
	return deciding(func(r *Reference, request *store.Request) {
		r.mu.Lock()
		for m, known := range r.settled {
			if forget(request, len(known[0].records)) {
				delete(r.settled, m)
			}
		}
		r.mu.Unlock()
		r.decide(request)
	})
}

// expiringSettlements opens stores that lose settlements at the time that expires returns.
func expiringSettlements(expires func(g *generation, now rule.Micros) rule.Micros) Open {
	return deciding(func(r *Reference, request *store.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		now := r.clock.Now()
		expire := func() {
			for m, known := range r.settled {
				if expires(&known[0], now) <= now {
					delete(r.settled, m)
				}
			}
		}
		expire()
		r.decideLocked(request, now)
		expire()
	})
}

func settleBugs() []bug {
	return []bug{
		{"settles more than once", "settle", forgettingSettlements(func(*store.Request, int) bool { return true })},
		{"forgets settlements when a key is reset", "settle", forgettingSettlements(func(request *store.Request, _ int) bool {
			return request.Op == rule.Reset
		})},
		{"forgets settlements as soon as it may", "settle", expiringSettlements(func(g *generation, _ rule.Micros) rule.Micros {
			return g.Until
		})},
		{"remembers settlements by its own clock", "settle", expiringSettlements(func(g *generation, now rule.Micros) rule.Micros {
			ahead := max(0, g.Newest-now)
			g.Newest -= ahead
			g.Until -= ahead
			return g.Expires()
		})},
		{"remembers settlements forever", "settle", forgettingSettlements(func(_ *store.Request, known int) bool { return known == 999 })},
		{"settles what it cannot remember", "settle", deciding(func(r *Reference, request *store.Request) {
			if r.decide(request); request.Op == rule.Settle && request.Answers[0].Flags&rule.Unsettled != 0 {
				request.Op = rule.GiveBack
				r.decide(request)
				request.Answers[0].Flags |= rule.Unsettled
				request.Op = rule.Settle
			}
		})},
		{"mixes up reservations", "settle", misreading(func(request *store.Request) { request.ID &= 1<<63 - 4 })},
		{"identifies a reservation by the last charge", "settle", deciding(func(r *Reference, request *store.Request) {
			for i := range request.Charges {
				if request.Op == rule.Settle { // one by one
					r.decide(part(request, i))
				}
			}
			if request.Op != rule.Settle {
				r.decide(request)
			}
			if request.Op == rule.Settle && len(request.Charges) > 1 {
				request.Answers[0].Flags |= rule.Repeated
			}
		})},
		{"settles after the context has ended", "settle", plant(func(r *Reference) applyFunc {
			return func(ctx context.Context, batch []store.Request) error {
				if ctx.Err() != nil && batch[0].Op == rule.Settle {
					r.decide(&batch[0])
				}
				return r.Apply(ctx, batch)
			}
		})},
		{"does not report a repeated settlement", "settle", misanswering(func(_ rule.Op, _ store.Charge, a *rule.Answer, _ rule.Micros) {
			a.Flags &^= rule.Repeated
		})},
		{"charges nothing when more was used", "settle", misreading(func(request *store.Request) {
			for i := range request.Charges {
				c := &request.Charges[i]
				c.Used = min(c.Used, c.Cost)
			}
		})},
		{"checks before it settles", "settle", deciding(func(r *Reference, request *store.Request) {
			if request.Op != rule.Settle || len(request.Charges) != 1 {
				r.decide(request)
				return
			}
			peek := *request
			peek.Op = rule.Peek
			r.decide(&peek)
			if request.Charges[0].Used == 28 && peek.Answers[0].Remaining == 0 { // a race that is lost
				yield()
				request.ID++
				r.decide(request)
				request.ID--
			}
			r.decide(request)
		})},
	}
}

func slotBugs() []bug {
	ofSlots := func(request *store.Request) bool { return request.Charges[0].Limit.Rule().Algorithm == rule.InFlight }
	return []bug{
		{"takes another slot for a repeated request", "in-flight", misreading(func() func(*store.Request) {
			var n rule.ID
			return func(request *store.Request) {
				if n++; request.Op == rule.Take && ofSlots(request) {
					request.ID += n << 20
				}
			}
		}())},
		{"frees any slot", "in-flight", misreading(func(request *store.Request) {
			for i := range request.Charges {
				request.Charges[i].At = rule.Oldest
			}
		})},
		{"mistakes one ID for another", "in-flight", misreading(func(request *store.Request) { request.ID &= 1<<63 - 1 })},
		{"renews slots that have expired", "in-flight", misreading(func(request *store.Request) {
			if request.Op == rule.Renew {
				request.Op = rule.Take
			}
		})},
		{"does not renew", "in-flight", notDoing(rule.Renew)},
		{"keeps slots a little longer", "in-flight", preparing(func(r *Reference, _ *rule.Limit, address string, _ rule.Micros) {
			state := r.states[address].Clone()
			for i := range state.Slots {
				if state.Slots[i].Renewed%2 == 0 {
					state.Slots[i].Renewed++
				}
			}
			r.states[address] = state
		})},
		{"admits more slots concurrently than there are", "in-flight", deciding(func(r *Reference, request *store.Request) {
			if !ofSlots(request) || request.Op != rule.Take || len(request.Charges) > 1 {
				r.decide(request)
				return
			}
			peek := *request
			peek.Op = rule.Peek
			r.decide(&peek)
			yield()
			if peek.Answers[0].Allowed {
				peek.Op = rule.Charge
				r.decide(&peek)
				request.Answers[0] = peek.Answers[0]
			}
		})},
		{"holds slots of refused requests", "in-flight", deciding(func(r *Reference, request *store.Request) {
			for i := range request.Charges {
				r.decide(part(request, i))
			}
		})},
	}
}

// notDoing opens stores that answer an operation correctly but do not carry it out.
func notDoing(op rule.Op) Open {
	return deciding(func(r *Reference, request *store.Request) {
		r.mu.Lock()
		before := map[string]rule.State{}
		for name, state := range r.states {
			before[name] = state.Clone()
		}
		r.decideLocked(request, r.clock.Now())
		if request.Op == op {
			r.states = before
		}
		r.mu.Unlock()
	})
}

func calendarBugs() []bug {
	reading := func(change func(l *rule.Limit)) Open {
		return misreading(func(request *store.Request) {
			for i, charge := range request.Charges {
				if l := *charge.Limit.Rule(); l.Calendar != 0 {
					change(&l)
					bound := charge.Limit
					request.Charges[i].Limit = store.Bind(bound.Namespace(), bound.Name(), bound.Label(), l)
				}
			}
		})
	}
	return []bug{
		{"ignores zones", "calendar", reading(func(l *rule.Limit) { l.Zone = "UTC" })},
		{"ignores daylight saving time", "calendar", reading(func(l *rule.Limit) {
			if l.Zone == "Europe/Berlin" {
				l.Zone = "Etc/GMT-1"
			}
		})},
		{"makes every month 30 days long", "calendar", reading(func(l *rule.Limit) {
			if l.Calendar == rule.Month {
				*l = rule.Limit{Algorithm: rule.FixedWindow, Quota: l.Quota, CountRefused: l.CountRefused, Window: 30 * 86_400_000_000}
			}
		})},
		{"returns to the previous period", "calendar", preparing(func(r *Reference, l *rule.Limit, address string, now rule.Micros) {
			if state := r.states[address]; l.Calendar != 0 && len(state.Counts) > 0 && state.Start > now {
				delete(r.states, address)
			}
		})},
	}
}
