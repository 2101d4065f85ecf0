package storetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// sequence plays random requests on a pair: in small steps and large ones, forwards and back, and exactly at the times at
// which answers change.
type sequence struct {
	*pair
	random *rand.Rand
	mix    []rule.Op // the operations, each as often as it should occur
	// subjects are the limits and keys of the requests. A limit comes in variants that share its state.
	subjects   []sequenceSubject
	group      string
	maxCharges int  // how many charges a request has at most
	evenly     bool // whether all variants of a limit are equally frequent
	holds      bool // whether takes hold their units
	once       bool // whether some takes are calls that count once

	last    rule.Answer
	times   []rule.Micros // when units were charged
	latest  rule.Micros   // the latest time of all
	ids     rule.ID       // how many reservations were made
	settled []settlement

	remembered map[rule.ID]rule.Micros // since when an ID is remembered, if it may be used again
}

// settlement is one that may be sent again.
type settlement struct {
	id      rule.ID
	charges []store.Charge
	at      rule.Micros
}

type sequenceSubject struct {
	variants []*store.Limit
	keys     []string
}

var (
	// everyOp is mostly takes, as traffic is.
	everyOp = []rule.Op{
		rule.Take, rule.Take, rule.Take, rule.Take, rule.Take, rule.Take,
		rule.Take, rule.Take, rule.Take, rule.Take, rule.TakeUpTo, rule.TakeUpTo,
		rule.Peek, rule.Peek, rule.Charge, rule.GiveBack, rule.GiveBack, rule.Reset, rule.Settle, rule.Settle, rule.Renew,
	}
	// givingBack is mostly corrections.
	givingBack = []rule.Op{
		rule.Take, rule.Take, rule.Take, rule.GiveBack, rule.GiveBack, rule.GiveBack,
		rule.Charge, rule.Reset, rule.Settle, rule.Settle,
	}
	// onlyTake is all that a SingleTaker supports.
	onlyTake = []rule.Op{rule.Take}
)

// sequence prepares a sequence over limits, with three keys each. It returns nil if the store rejects them all.
func (p *pair) sequence(index int, mix []rule.Op, limits ...slidegate.Limit) *sequence {
	p.t.Helper()
	p.forgetSubjects()
	q := &sequence{pair: p, random: rand.New(rand.NewPCG(p.suite.seed, uint64(index))), mix: mix, maxCharges: 1}
	for i, limit := range limits {
		limit.Name = fmt.Sprintf("sequence-%d-%d", index, i)
		variants := p.bindAll(limit, variantOf(limit))
		if len(variants) > 0 {
			q.subjects = append(q.subjects, sequenceSubject{variants, []string{"a", "b", "c"}})
		}
	}
	if len(q.subjects) == 0 {
		return nil
	}
	p.title = fmt.Sprintf("sequence %d", index)
	return q
}

// sequenceOf is sequence for one limit in integers.
func (p *pair) sequenceOf(index int, mix []rule.Op, limit rule.Limit) *sequence {
	p.t.Helper()
	p.forgetSubjects()
	name := fmt.Sprintf("sequence-%d", index)
	one, other := p.bindRule(name, limit), p.bindRule(name, variantOfRule(limit))
	if one == nil || other == nil {
		return nil
	}
	p.title = fmt.Sprintf("sequence %d", index)
	return &sequence{
		pair: p, random: rand.New(rand.NewPCG(p.suite.seed, uint64(index))), mix: mix, maxCharges: 1,
		subjects: []sequenceSubject{{[]*store.Limit{one, other}, []string{"a", "b", "c"}}},
	}
}

// play makes n requests.
func (q *sequence) play(n int) {
	q.t.Helper()
	for range n {
		q.step(q.store.Apply)
	}
}

// step moves the clock and makes one request.
func (q *sequence) step(apply applyFunc) {
	q.t.Helper()
	charges := q.charges()
	q.move(charges[0])
	op := q.mix[q.random.IntN(len(q.mix))]
	r := store.Request{Op: op, ID: q.id(op, charges), Group: q.group, Charges: charges}
	r.Hold = q.holds && op == rule.Take && q.random.IntN(4) > 0
	q.makeOnce(&r)
	answers := q.bothFull(apply, r)
	for i, answer := range answers {
		q.last = answer
		if answer.Granted > 0 && charges[i].Cost > 0 {
			q.times = append(q.times, answer.At)
		}
	}
	q.settleAgain()
}

// id draws the reservation of a request: one of the last ones, or a new one.
func (q *sequence) id(op rule.Op, charges []store.Charge) rule.ID {
	id := q.ids - min(q.ids, rule.ID(q.random.IntN(6)))
	if id == 0 || op == rule.Settle && !q.holds || q.random.IntN(3) == 0 {
		q.ids++
		id = q.ids
	}
	id *= 0x9E3779B97F4A7C15 // all bits are significant
	q.latest = max(q.latest, q.clock.Now())
	if op == rule.Settle {
		for i := range charges {
			charges[i].Used = q.cost(charges[i].Limit.Rule())
			if charges[i].At == rule.Oldest { // a reservation contains its time
				charges[i].At = q.clock.Now()
			}
		}
		if id = q.unsettled(id); !q.holds {
			q.settled = append(q.settled, settlement{id, charges, q.clock.Now()})
		}
	}
	return id
}

// unsettled returns the ID of a settlement, or a new one if the settlement of that ID may be forgotten.
func (q *sequence) unsettled(id rule.ID) rule.ID {
	at, known := q.remembered[id]
	if known && (q.clock.Now() < at || q.latest >= at+q.shortest()) {
		q.ids++
		id = q.ids * 0x9E3779B97F4A7C15
		known = false
	}
	if !known && q.remembered != nil {
		q.remembered[id] = q.clock.Now()
	}
	return id
}

// shortest is the shortest time for which an ID is remembered under any variant.
func (q *sequence) shortest() rule.Micros {
	memory := rule.Never
	for _, s := range q.subjects {
		for _, limit := range s.variants {
			memory = min(memory, limit.Rule().Memory())
		}
	}
	return memory
}

// makeOnce makes some takes calls that count once, and some settlements those of a call.
func (q *sequence) makeOnce(r *store.Request) {
	if !q.once || r.Op != rule.Take && r.Op != rule.Settle || q.random.IntN(2) == 0 {
		return
	}
	r.Once = true
	if r.Op == rule.Take {
		r.ID = q.unsettled(r.ID)
	}
}

// settleAgain sends settlements again, as long as a store must remember them.
func (q *sequence) settleAgain() {
	q.t.Helper()
	for n := len(q.settled); n > 0 && q.random.IntN(4) == 0; n-- {
		s := q.settled[n-1]
		var memory rule.Micros
		for _, charge := range s.charges {
			memory = max(memory, charge.Limit.Rule().Memory())
		}
		if now := q.clock.Now(); now < s.at || q.latest >= s.at+memory && memory > 0 {
			return
		}
		q.bothAs(s.id, rule.Settle, q.group, s.charges...)
	}
}

// charges draws one charge, or several on different limits in any order.
func (q *sequence) charges() []store.Charge {
	n := 1 + q.random.IntN(min(q.maxCharges, len(q.subjects)))
	charges := make([]store.Charge, 0, n)
	for _, i := range q.random.Perm(len(q.subjects))[:n] {
		s := q.subjects[i]
		limit := s.variants[0]
		if q.evenly {
			limit = s.variants[q.random.IntN(len(s.variants))]
		} else if q.random.IntN(8) == 0 {
			limit = s.variants[len(s.variants)-1]
		}
		charges = append(charges, store.Charge{
			Limit: limit, Key: s.keys[q.random.IntN(len(s.keys))], Cost: q.cost(limit.Rule()), At: q.giveBackTime(),
		})
	}
	return charges
}

// cost draws a cost: one, nothing, what just fits, what just does not fit, and more than the limit can ever admit.
func (q *sequence) cost(l *rule.Limit) int64 {
	capacity := l.Capacity()
	if l.Algorithm == rule.InFlight {
		return min(1, q.random.Int64N(6))
	}
	var cost int64
	switch q.random.IntN(16) {
	case 0:
		cost = 0
	case 1:
		cost = capacity
	case 2:
		cost = capacity + 1
	case 3:
		cost = capacity / 2
	case 4:
		cost = q.last.Remaining
	case 5:
		cost = q.last.Remaining + 1
	case 6:
		cost = rule.MaxQuota
	case 7, 8, 9, 10:
		cost = 1 + q.random.Int64N(capacity/4+1)
	default:
		cost = 1
	}
	return min(cost, rule.MaxQuota)
}

// giveBackTime draws a time to give back at: mostly one at which something was charged.
func (q *sequence) giveBackTime() rule.Micros {
	switch n := len(q.times); {
	case n == 0 || q.random.IntN(4) == 0:
		return rule.Oldest
	case q.random.IntN(8) == 0:
		return q.times[q.random.IntN(n)] + rule.Micros(q.random.Int64N(3)) - 1
	default:
		return q.times[n-1-q.random.IntN(min(n, 6))]
	}
}

// move moves the clock, within the range of times that the rule accepts.
func (q *sequence) move(charge store.Charge) {
	q.t.Helper()
	const earliest = rule.Micros(1_000_000_000_000_000) // in 2001: far from 0, which means no time
	if next := q.nextTime(charge); next >= earliest && next <= rule.MaxNow {
		q.moveTo(next)
	}
}

func (q *sequence) nextTime(charge store.Charge) rule.Micros {
	l, now := charge.Limit.Rule(), q.clock.Now()
	part, around := partOf(l), rule.Micros(q.random.Int64N(3)-1)
	switch q.random.IntN(24) {
	case 0, 1:
		return now + 1
	case 2, 3, 4:
		return now + rule.Micros(q.random.Int64N(int64(part)/4+1))
	case 5, 6:
		return now - now%part + part + around
	case 7:
		return now + part + around
	case 8, 9:
		if q.last.RetryAfter == rule.Never {
			return now
		}
		return now + max(0, q.last.RetryAfter-rule.Micros(q.random.Int64N(2)))
	case 18:
		return now + max(0, q.last.NextAfter-rule.Micros(q.random.Int64N(2)))
	case 19:
		if l.Calendar == 0 {
			return now
		}
		start, end := l.Bounds(now)
		return []rule.Micros{start, end}[q.random.IntN(2)] + around
	case 10:
		return now + max(0, q.last.ResetAfter-rule.Micros(q.random.Int64N(2)))
	case 11:
		return now + l.Window + around
	case 12:
		return now + 2*l.Window + rule.Micros(q.random.Int64N(int64(l.Window)))
	case 13, 14:
		if end, found := q.reference.expires(charge.Limit, q.group, charge.Key); found && end > now {
			return end + around
		}
		return now
	case 15:
		return now - 1
	case 16:
		return now - rule.Micros(q.random.Int64N(int64(part)))
	case 17:
		return now - l.Window - rule.Micros(q.random.Int64N(int64(l.Window)))
	default:
		return now
	}
}
