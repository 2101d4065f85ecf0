package lease

import (
	"context"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// partly is a request of which some charges were spent from blocks, and the store is asked for the others. So a block of a
// global limit serves the requests of all users, also of those who have no block or whose limit cannot be leased.
type partly struct {
	request int // which one it is of those that go to the store
	spends  int // where those of its charges begin in kept
}

// spendSome spends what charges with a holding cost, and reports whether there was any. It is for requests of which some charges
// have none.
func (s *Store) spendSome(ctx context.Context, j *job, r *store.Request) bool {
	some := false
	for k := range r.Charges {
		c, p := &r.Charges[k], &j.spends[k]
		if p.e == nil {
			continue
		}
		var ok bool
		if p.b, p.left, p.now, ok = s.spend(p.e, c.Limit, p.cost); !ok {
			if _, refused := p.e.refuse(c.Limit, p.cost, s.clock.read()); refused {
				continue // the store is asked for all of it, and answers for each charge
			}
			if p.b, p.now, _ = s.await(ctx, p.e, c.Limit, p.cost); p.b != nil {
				p.left, _ = p.b.left()
			}
		}
		some = some || p.b != nil
	}
	return some
}

// send has the store asked for a request: for what was not spent of it.
func (j *job) send(r *store.Request, place int, some bool) {
	j.places = append(j.places, place)
	if !some {
		j.requests = append(j.requests, *r)
		return
	}
	j.parts = append(j.parts, partly{len(j.requests), len(j.kept)})
	j.kept = append(j.kept, j.spends...)
	from := len(j.charges)
	for k := range r.Charges {
		if j.spends[k].b == nil {
			j.charges, j.answers = append(j.charges, r.Charges[k]), append(j.answers, rule.Answer{})
		}
	}
	rest := *r
	rest.Charges, rest.Answers = j.charges[from:], j.answers[from:]
	j.requests = append(j.requests, rest)
}

// join answers a request of which the store was asked for a part. If it refused that, or nobody knows, what was spent is put
// back.
func (s *Store) join(j *job, p partly, r *store.Request) {
	rest, spends := &j.requests[p.request], j.kept[p.spends:p.spends+len(r.Charges)]
	_, allowed := rule.Deciding(rest.Answers)
	allowed = allowed && rest.Err == nil
	next := 0
	for k := range spends {
		spent := &spends[k]
		if spent.b == nil {
			r.Answers[k] = rest.Answers[next]
			next++
			continue
		}
		a := spent.b.answer(spent.cost, spent.left, spent.now)
		if !allowed {
			s.undo(spent, &r.Charges[k])
			a.Granted, a.NextAfter = 0, 0
			a.Remaining += spent.cost
		}
		r.Answers[k] = a
	}
}
