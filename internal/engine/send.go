package engine

import (
	"context"

	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/rule"
)

// send carries out the plan, in one call to the store. It returns an error if the store cannot decide the policies together.
// Operations that correct a charge are carried out even if the client has left.
func (t *Transaction) send(ctx context.Context) error {
	p := &t.plan
	p.lay(t.parts)
	if len(p.ops) == 0 {
		return nil
	}
	if err := t.check(); err != nil && !p.each {
		return err
	}
	if p.op == rule.GiveBack || p.op == rule.Charge {
		var cancel context.CancelFunc
		ctx, cancel = detach.Context(ctx, t.set.traits)
		defer cancel()
	}
	if p.id != 0 {
		p.cancelled = p.batch.reserve(ctx, t.Group, p.id, t.set.store)
	} else {
		p.batch.apply(ctx, t.Group, 0, t.set.store)
	}
	return nil
}

// lay makes the requests to the store.
func (p *plan) lay(parts []part) {
	e, x := 0, 0
	for request, op := range p.ops {
		p.batch.begin(op)
		start := len(p.batch.charges)
		for ; e < len(p.entries) && p.entries[e].request == request; e++ {
			one := &p.entries[e]
			it := &parts[one.part]
			one.from = len(p.batch.charges) - start
			p.batch.addBundle(one.bundle, it.Part, one.role != checks)
			if op == rule.Take {
				p.batch.mark(it.holds, it.ID)
			}
		}
		for ; x < len(p.extras) && p.extras[x].request == request; x++ {
			p.extras[x].index = p.batch.add(p.extras[x].charge) - start
		}
	}
}

// trim removes the answers to extras, after their features have seen them.
func (p *plan) trim() {
	for i := len(p.extras) - 1; i >= 0; i-- {
		x := &p.extras[i]
		result := &p.batch.requests[x.request]
		result.Charges, result.Answers = result.Charges[:x.index], result.Answers[:x.index]
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
