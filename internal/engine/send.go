package engine

import (
	"context"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// send sends the plan, in one call to the store. It returns an error if the store cannot decide the policies together.
func (t *Transaction) send(ctx context.Context) error {
	p := &t.plan
	t.lay()
	if len(p.ops) == 0 {
		return nil
	}
	if err := t.check(); err != nil && !p.each {
		return err
	}
	if p.id != 0 {
		p.cancelled = p.batch.reserve(ctx, t.Group, p.id, t.set.store)
	} else {
		p.batch.apply(ctx, t.Group, 0, t.set.store)
	}
	return nil
}

// lay makes the requests to the store. The charges of penalties are behind those of the entries.
func (t *Transaction) lay() {
	p := &t.plan
	e, x := 0, 0
	for request, op := range p.ops {
		p.batch.begin(op)
		start := len(p.batch.charges)
		for ; e < len(p.entries) && p.entries[e].request == request; e++ {
			one := &p.entries[e]
			it := &t.parts[one.part]
			one.from = len(p.batch.charges) - start
			p.batch.addBundle(one.bundle, it.Part, one.role != checks)
			if op == rule.Take {
				p.batch.mark(it.holds, it.ID)
			}
		}
		for ; x < len(t.penalties) && p.entries[t.penalties[x].entry].request == request; x++ {
			if one := &t.penalties[x]; one.checked {
				one.index = p.batch.add(store.Charge{Limit: one.policy.penalty, Key: one.key}) - start
			}
		}
	}
}

// trim removes the answers of penalties, which have been applied.
func (t *Transaction) trim() {
	for i := len(t.penalties) - 1; i >= 0; i-- {
		if one := &t.penalties[i]; one.checked {
			result := t.plan.result(&t.plan.entries[one.entry])
			result.Charges, result.Answers = result.Charges[:one.index], result.Answers[:one.index]
		}
	}
}

// check returns an error if the store cannot decide the policies together.
func (t *Transaction) check() error {
	b := &t.plan.batch
	if err := t.set.checkCharges(b.ends[0]); err != nil {
		return err
	}
	if !t.set.traits.OneKey || t.Group != "" {
		return nil
	}
	for _, charge := range b.charges[:b.ends[0]] {
		if charge.Key != b.charges[0].Key {
			return t.set.errKeys()
		}
	}
	return nil
}
