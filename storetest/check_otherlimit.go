package storetest

import (
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkOtherLimit: what was used stays used if units are given back, settled, charged or refused under another limit than the
// key has now: a reservation is settled with the limit that it was made under, and a limit may be lowered for a moment.
func checkOtherLimit(t testing.TB, s *suite) {
	p := s.pair(t)
	const hour = rule.Micros(3_600_000_000)
	bucket := func(quota, burst int64) rule.Limit {
		return rule.Limit{Algorithm: rule.TokenBucket, Quota: quota, Burst: burst, Window: hour}
	}
	log := func(quota int64) rule.Limit {
		return rule.Limit{Algorithm: rule.SlidingLog, Quota: quota, Window: hour}
	}
	slots := func(quota int64) rule.Limit {
		return rule.Limit{Algorithm: rule.InFlight, Quota: quota, Window: hour}
	}
	o := &otherLimit{pair: p}
	o.bucketUpgraded(o.bind2(bucket(10, 10), bucket(1000, 1000)))
	o.bucketDowngraded(o.bind2(bucket(1000, 1000), bucket(10, 1000)))
	o.bucketAfterTime(o.bind2(bucket(1000, 1000), bucket(10, 1000)))
	o.bucketRefunded(o.bind2(bucket(1000, 1000), bucket(10, 1000)))
	o.logUpgraded(o.bind2(log(10), log(100)))
	o.logLowered(o.bind2(log(100), log(10)))
	o.slots(o.bind2(slots(5), slots(2)))
	for i, sizes := range [][]rule.Limit{
		{bucket(10, 10), bucket(1000, 1000), bucket(10, 1000), bucket(1000, 3)}, {bucket(1, 1), bucket(rule.MaxQuota, rule.MaxQuota), bucket(7, 300_000)},
		{log(2), log(10), log(100)}, {slots(1), slots(3), slots(10)},
		{{Algorithm: rule.SlidingWindow, Quota: 3, Window: hour}, {Algorithm: rule.SlidingWindow, Quota: 1000, Window: hour}},
		{{Algorithm: rule.FixedWindow, Quota: 3, Window: hour}, {Algorithm: rule.FixedWindow, Quota: 1000, Window: hour}},
		{{Algorithm: rule.SlidingWindow, Segments: 6, Quota: 3, Window: hour}, {Algorithm: rule.SlidingWindow, Segments: 6, Quota: 1000, Window: hour}},
	} {
		if q := p.sequenceOf(100+i, append(givingBack, rule.TakeUpTo, rule.Peek, rule.Renew), sizes[0]); q != nil {
			q.evenly = true
			for _, size := range sizes[1:] {
				for _, refused := range []bool{false, size.Algorithm != rule.InFlight} {
					size.CountRefused = refused
					if limit := p.bindRule(q.subjects[0].variants[0].Name(), size); limit != nil {
						q.subjects[0].variants = append(q.subjects[0].variants, limit)
					}
				}
			}
			q.play(s.times(400))
		}
	}
}

// otherLimit plays scripts over two limits of one address.
type otherLimit struct {
	*pair
	id rule.ID // of the last reservation
}

// bind2 binds two limits to one name. Both are nil if the store rejects one.
func (o *otherLimit) bind2(first, second rule.Limit) (*store.Limit, *store.Limit) {
	o.t.Helper()
	o.forgetSubjects()
	o.moveTo(epoch)
	o.title = "under another limit"
	a, b := o.bindRule("other", first), o.bindRule("other", second)
	if a == nil || b == nil {
		return nil, nil
	}
	return a, b
}

// reserve takes n units, to be settled.
func (o *otherLimit) reserve(limit *store.Limit, key string, n int64) store.Charge {
	o.t.Helper()
	o.id++
	c := store.Charge{Limit: limit, Key: key, Cost: n}
	a := o.bothAs(o.id, rule.Take, "", c)[0]
	if !a.Allowed {
		o.fatalf("reserving %d: got %+v, want an admission", n, a)
	}
	c.At = a.At
	return c
}

// settled settles a reservation, and checks what was given back.
func (o *otherLimit) settled(c store.Charge, used, back int64) {
	o.t.Helper()
	o.id++
	c.Used = used
	if a := o.bothAs(o.id, rule.Settle, "", c)[0]; a.Granted != back || a.Flags != 0 {
		o.fatalf("settling %d of %d: got %+v, want %d back", used, c.Cost, a, back)
	}
}

// left checks what is left under a limit, and when everything is free again.
func (o *otherLimit) left(limit *store.Limit, key string, n int64, reset rule.Micros) {
	o.t.Helper()
	if a := o.single(rule.Peek, limit, key, 0); a.Remaining != n || reset > 0 && a.ResetAfter != reset {
		o.fatalf("got %+v, want %d left and everything free after %dus", a, n, reset)
	}
}

// bucketUpgraded: each old reservation gives back its own units, and no more.
func (o *otherLimit) bucketUpgraded(small, large *store.Limit) {
	o.t.Helper()
	if small == nil {
		return
	}
	var old []store.Charge
	for range 4 {
		old = append(old, o.reserve(small, "up", 2))
	}
	o.single(rule.Take, large, "up", 992)
	for _, c := range old[:3] {
		o.settled(c, 0, 2)
		if a := o.single(rule.TakeUpTo, large, "up", 1000); a.Granted != 2 {
			o.fatalf("after a reservation of 2 was cancelled: got %+v, want 2 units", a)
		}
	}
	o.settled(old[3], 7, -5)
	o.left(large, "up", 0, 3_600_000_000) // the debt of the large bucket is deeper than the small one can charge
	o.single(rule.Charge, small, "up", 1)
	o.left(large, "up", 0, 3_600_000_000)
}

// bucketDowngraded: settling an old reservation does not move the end of the bucket nearer.
func (o *otherLimit) bucketDowngraded(large, lowered *store.Limit) {
	o.t.Helper()
	if large == nil {
		return
	}
	const unit = rule.Micros(360_000_000) // what the lowered limit needs for a unit
	for i, step := range []struct{ used, back, left int64 }{{0, 5, 5}, {4, 1, 1}, {8, -3, 0}} {
		key := []string{"cancel", "less", "more"}[i]
		o.moveTo(epoch)
		c := o.reserve(large, key, 5)
		o.single(rule.Take, lowered, key, 995)
		o.left(lowered, key, 0, 1000*unit)
		o.settled(c, step.used, step.back)
		o.left(lowered, key, step.left, rule.Micros(min(1000, 1000-step.back))*unit)
		o.moveBy(3_602_000_000)
		if a := o.single(rule.Take, lowered, key, 1000); a.Allowed {
			o.fatalf("a window later: got %+v, want a refusal", a)
		}
	}
}

// bucketAfterTime: what is given back is refilled at the rate of the limit that decides, not at that of the reservation.
func (o *otherLimit) bucketAfterTime(large, lowered *store.Limit) {
	o.t.Helper()
	if large == nil {
		return
	}
	c := o.reserve(large, "later", 600)
	o.single(rule.Take, lowered, "later", 400)
	o.moveBy(1_800_000_000)
	o.left(lowered, "later", 5, 0)
	o.settled(c, 0, 100) // 500 would have been refilled
	o.left(lowered, "later", 105, 0)
}

// bucketRefunded: giving back does not make a key worse off, and neither do refusals that count.
func (o *otherLimit) bucketRefunded(large, lowered *store.Limit) {
	o.t.Helper()
	if large == nil {
		return
	}
	counted := *lowered.Rule()
	counted.Burst, counted.CountRefused = 500, true
	refusing := o.bindRule("other", counted)
	if refusing == nil {
		return
	}
	o.single(rule.Take, large, "refund", 1000)
	o.moveBy(59 * 60_000_000)
	wait := func(limit *store.Limit, op rule.Op) {
		o.t.Helper()
		if a := o.single(op, limit, "refund", 500); a.RetryAfter != 60_000_000 {
			o.fatalf("got %+v, want a refusal for a minute", a)
		}
	}
	wait(lowered, rule.Peek)
	if a := o.giveBack(lowered, "refund", 1, rule.Oldest); a.Granted != 1 {
		o.fatalf("giving back: got %+v, want 1", a)
	}
	wait(lowered, rule.Peek)
	wait(refusing, rule.Take) // it has a smaller burst, so there is nothing to take
	wait(refusing, rule.Take)
	wait(lowered, rule.Peek)
}

// logUpgraded: settling an old reservation drops no other unit.
func (o *otherLimit) logUpgraded(small, large *store.Limit) {
	o.t.Helper()
	if small == nil {
		return
	}
	more, less, cancelled := o.reserve(small, "up", 2), o.reserve(small, "up", 2), o.reserve(small, "up", 2)
	for range 94 {
		o.moveBy(1)
		o.single(rule.Take, large, "up", 1)
	}
	o.left(large, "up", 0, 0)
	o.settled(more, 3, -1)
	o.left(large, "up", 0, 0)
	o.settled(less, 1, 1)
	o.left(large, "up", 1, 0)
	o.settled(cancelled, 0, 2)
	o.left(large, "up", 3, 0)
}

// logLowered: what exceeds a quota that was lowered for a moment is not forgotten, whatever is done meanwhile.
func (o *otherLimit) logLowered(large, small *store.Limit) {
	o.t.Helper()
	if large == nil {
		return
	}
	counted := *small.Rule()
	counted.CountRefused = true
	refusing := o.bindRule("other", counted)
	if refusing == nil {
		return
	}
	for i, step := range []struct {
		do   func(key string) rule.Answer
		left int64
	}{
		{func(key string) rule.Answer { return o.single(rule.Charge, small, key, 1) }, 0},
		{func(key string) rule.Answer { return o.single(rule.Charge, small, key, 50) }, 0},
		{func(key string) rule.Answer { return o.giveBack(small, key, 1, rule.Oldest) }, 1},
		{func(key string) rule.Answer { return o.giveBack(small, key, 30, rule.Oldest) }, 30},
		{func(key string) rule.Answer { return o.single(rule.Take, small, key, 1) }, 0},
		{func(key string) rule.Answer { return o.single(rule.Take, refusing, key, 3) }, 0},
		{func(key string) rule.Answer { return o.single(rule.Take, refusing, key, 0) }, 0},
	} {
		key := string(rune('a' + i))
		o.single(rule.Take, large, key, 60)
		o.moveBy(1_000_000)
		o.single(rule.Take, large, key, 40)
		o.moveBy(1_000_000)
		step.do(key)
		o.left(small, key, 0, 0)
		o.left(large, key, step.left, 0)
	}
}

// slots: releasing or renewing a slot under another number of slots drops no other.
func (o *otherLimit) slots(many, few *store.Limit) {
	o.t.Helper()
	if many == nil {
		return
	}
	do := func(op rule.Op, limit *store.Limit, id rule.ID) rule.Answer {
		o.t.Helper()
		o.moveBy(1)
		return o.bothAs(id, op, "", store.Charge{Limit: limit, Key: "slots", Cost: 1, At: o.clock.Now()})[0]
	}
	for id := rule.ID(1); id <= 5; id++ {
		do(rule.Take, many, id)
	}
	for i, step := range []struct {
		op      rule.Op
		id      rule.ID
		allowed bool
		left    int64
	}{
		{rule.Renew, 1, true, 0}, {rule.Settle, 2, true, 1}, {rule.Settle, 2, true, 1}, {rule.Take, 6, false, 1}, {rule.Renew, 3, true, 1},
		{rule.GiveBack, 4, true, 2}, {rule.Take, 1, true, 2}, {rule.Renew, 5, true, 2},
	} {
		if a := do(step.op, few, step.id); a.Allowed != step.allowed {
			o.fatalf("step %d under fewer slots: got %+v, want allowed %v", i, a, step.allowed)
		}
		o.left(many, "slots", step.left, 0)
	}
}
