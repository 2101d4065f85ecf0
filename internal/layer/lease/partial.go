package lease

import (
	"context"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// partial is a request of which some charges were spent from leases, while the others go to the store. So a lease of a
// global limit serves the requests of all users, also of users who have no lease or whose limit cannot be leased.
type partial struct {
	request int // its index among those that go to the store
	spends  int // where its spends begin in kept
}

// sameMode reports whether all charges have the same failure mode. If they do not, the strictest of them decides when the
// store is away, so a request must not reach the failure layer without some of them.
func sameMode(charges []store.Charge) bool {
	for k := range charges {
		if charges[k].Limit.Mode() != charges[0].Limit.Mode() {
			return false
		}
	}
	return true
}

// spendSome spends the cost of charges that have a holding, and reports whether there was any. It is for requests of
// which some charges have none.
func (s *Store) spendSome(ctx context.Context, j *job, r *store.Request) bool {
	some := false
	for k := range r.Charges {
		c, p := &r.Charges[k], &j.spends[k]
		if p.e == nil {
			continue
		}
		var ok bool
		if p.lease, p.left, p.now, ok = s.spend(p.e, c.Limit, p.cost); !ok {
			if _, refused := p.e.refuse(c.Limit, p.cost, s.clock.read()); refused {
				continue // the whole request goes to the store, which answers for each charge
			}
			if p.lease, p.now, _ = s.await(ctx, p.e, c.Limit, p.cost); p.lease != nil {
				p.left, _ = p.lease.left()
			}
		}
		some = some || p.lease != nil
	}
	return some
}

// send adds to the call the charges of a request that were not spent.
func (j *job) send(r *store.Request, index int, some bool) {
	j.indexes = append(j.indexes, index)
	if !some {
		j.requests = append(j.requests, *r)
		return
	}
	j.parts = append(j.parts, partial{len(j.requests), len(j.kept)})
	j.kept = append(j.kept, j.spends...)
	from := len(j.charges)
	for k := range r.Charges {
		if j.spends[k].lease == nil {
			j.charges, j.answers = append(j.charges, r.Charges[k]), append(j.answers, rule.Answer{})
		}
	}
	rest := *r
	rest.Charges, rest.Answers = j.charges[from:], j.answers[from:]
	j.requests = append(j.requests, rest)
}

// join answers a request of which some charges went to the store. If the store refused them, or its decision is unknown,
// what was spent is put back.
func (s *Store) join(j *job, p partial, r *store.Request) {
	rest, spends := &j.requests[p.request], j.kept[p.spends:p.spends+len(r.Charges)]
	_, allowed := answering.Deciding(rest.Answers)
	allowed = allowed && rest.Err == nil
	next := 0
	for k := range spends {
		spent := &spends[k]
		if spent.lease == nil {
			r.Answers[k] = rest.Answers[next]
			next++
			continue
		}
		a := spent.lease.answer(spent.cost, spent.left, spent.now)
		if !allowed {
			s.undo(spent, &r.Charges[k])
			a.Granted, a.NextAfter = 0, 0
			a.Remaining += spent.cost
		}
		r.Answers[k] = a
	}
}
