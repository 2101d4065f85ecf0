package policy

import (
	"context"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// tellsNext reports whether a verdict should say when the next unit is free: an admission that left nothing of a limit. An answer
// of the store says when the whole quota is free, and a client that waited for that would wait too long.
func (s *Set) tellsNext(op rule.Op, v *Verdict) bool {
	d := &v.Decision
	if !s.opts.Next || !d.Allowed || d.Flags != 0 || !counts(op) || v.Shadow {
		return false
	}
	return d.Remaining == 0 || slices.ContainsFunc(d.Answers, func(a rule.Answer) bool { return a.Remaining == 0 })
}

// tellNext is next for one part.
func (p *compiled) tellNext(ctx context.Context, op rule.Op, r *rules, part *Part, v *Verdict) {
	if !p.set.tellsNext(op, v) {
		return
	}
	charges := make([]store.Charge, len(r.bound))
	for i, limit := range r.bound {
		charges[i] = store.Charge{Limit: limit, Key: part.Key}
	}
	p.set.next(ctx, p.mode, "", charges, v)
}

// tellNext is next for all parts whose answers are in the verdict, in their order.
func (r *Request) tellNext(ctx context.Context, op rule.Op, v *Verdict) {
	if !r.set.tellsNext(op, v) {
		return
	}
	charges := slices.Clone(r.batch.requests[0].Charges)
	for i := range r.parts {
		if it := &r.parts[i]; it.answered(r) && it.request != 0 {
			charges = append(charges, r.batch.requests[it.request].Charges...)
		}
	}
	r.set.next(ctx, r.mode, r.Group, charges, v)
}

// next sets NextAfter of an admission, and RetryAfter of those of its Answers that have nothing left. The charges are those that
// were decided, in the order of the answers. Where what is known does not say it, it asks the store once more.
func (s *Set) next(ctx context.Context, mode Mode, group string, charges []store.Charge, v *Verdict) {
	var asks batch
	var places []int
	d := &v.Decision
	for i := range charges {
		remaining, resetAfter := d.Remaining, rule.Micros(d.ResetAfter.Microseconds())
		if d.Answers != nil {
			remaining, resetAfter = d.Answers[i].Remaining, d.Answers[i].ResetAfter
		}
		switch l := charges[i].Limit.Rule(); {
		case remaining > 0:
		case l.Algorithm == rule.FixedWindow || l.Capacity() == 1: // all is free when one is
			setNext(d, i, resetAfter)
		default:
			asks.begin(rule.Peek)
			asks.join(store.Charge{Limit: charges[i].Limit, Key: charges[i].Key, Cost: 1})
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return
	}
	asks.apply(ctx, group, s.stores[mode])
	for j, i := range places {
		if r := &asks.requests[j]; r.Err == nil && r.Answers[0].Flags&fallbacks == 0 {
			setNext(d, i, max(1, r.Answers[0].RetryAfter)) // it may have become free just now
		}
	}
}

// setNext says when the limit at a place has its next unit.
func setNext(d *slidegate.Decision, place int, next rule.Micros) {
	if d.Answers != nil {
		d.Answers[place].RetryAfter = next
	}
	if int(d.Index) == place {
		d.NextAfter = next.Duration()
	}
}
