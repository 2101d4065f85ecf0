package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkDefault: limits that name no algorithm share their state whatever their quotas are. It is a log or in parts, and no change of
// the quota forgets a unit.
func checkDefault(t testing.TB, s *suite) {
	d := &defaults{pair: s.pair(t)}
	if d.bindRule("default", rule.Limit{Quota: 10, Window: minute}) == nil {
		t.Skip("the store rejects limits that name no algorithm")
	}
	d.changedQuota()
	d.refusalsConvertNothing()
	d.loweredForAMoment()
	d.givesBackAfterConversion()
	d.forced()
	d.leased()
	d.emptyParts()
	d.secondLimiter()
	if d.store.Traits().MaxCharges > 1 {
		d.severalLimits()
	}
	for i, window := range []rule.Micros{minute, 1_000_000, 1_000} {
		d.sequences(i, window, s.times(600))
	}
}

const (
	second = rule.Micros(1_000_000)
	minute = 60 * second
)

// defaults plays scripts over limits of a minute, in parts of a second, that name no algorithm.
type defaults struct {
	*pair
	start rule.Micros // a multiple of the window
	key   string
}

// begin starts a script on a key of its own.
func (d *defaults) begin(title string) {
	d.t.Helper()
	d.forgetSubjects()
	d.title, d.key = title, title
	d.start = epoch - epoch%minute + minute
	d.moveTo(d.start)
}

// at moves the clock to a time of the script.
func (d *defaults) at(after rule.Micros) { d.moveTo(d.start + after) }

func (d *defaults) limit(quota int64) *store.Limit {
	d.t.Helper()
	return d.bindRule("default", rule.Limit{Quota: quota, Window: minute})
}

func (d *defaults) counting(quota int64) *store.Limit {
	d.t.Helper()
	return d.bindRule("default", rule.Limit{Quota: quota, Window: minute, CountRefused: true})
}

// want sends a request and checks whether it is admitted, how many units remain, and when to retry.
func (d *defaults) want(op rule.Op, quota, cost int64, allowed bool, left int64, retry rule.Micros) rule.Answer {
	d.t.Helper()
	return d.wantOf(d.limit(quota), op, cost, allowed, left, retry)
}

func (d *defaults) wantOf(limit *store.Limit, op rule.Op, cost int64, allowed bool, left int64, retry rule.Micros) rule.Answer {
	d.t.Helper()
	a := d.single(op, limit, d.key, cost)
	if a.Allowed != allowed || a.Remaining != left || a.RetryAfter != retry {
		d.fatalf("got %+v, want allowed %v with %d left, and a retry after %dus", a, allowed, left, retry)
	}
	return a
}

// returns gives units back that were charged at a time, and checks how many were.
func (d *defaults) returns(quota, cost int64, at rule.Micros, granted, left int64) {
	d.t.Helper()
	if a := d.giveBack(d.limit(quota), d.key, cost, at); a.Granted != granted || a.Remaining != left {
		d.fatalf("got %+v, want %d given back and %d left", a, granted, left)
	}
}

// changedQuota: a quota that crosses 100 keeps all units, and the parts stay until nothing in them counts.
func (d *defaults) changedQuota() {
	d.t.Helper()
	d.begin("changed quota")
	d.at(second / 2)
	d.want(rule.Take, 100, 90, true, 10, 0)
	d.at(second)
	d.want(rule.Take, 101, 11, true, 0, 0) // which makes it parts: 90 units in the first second, 11 in the next
	d.want(rule.Take, 100, 1, false, 0, 60*second)
	d.want(rule.Peek, 600, 499, true, 499, 0)
	d.at(60*second + second/2)
	d.want(rule.Take, 100, 1, false, 0, second/2) // a unit counts up to the end of its part, and a window
	d.at(61 * second)
	d.want(rule.Take, 100, 89, true, 0, 0)
	d.at(62*second - 1)
	d.want(rule.TakeUpTo, 100, 50, false, 0, 1)
	d.at(62 * second)
	d.want(rule.TakeUpTo, 100, 50, true, 0, 0) // the 11 units
	d.at(123 * second)
	d.want(rule.Peek, 100, 1, true, 100, 0)
	d.want(rule.Take, 100, 100, true, 0, 0) // nothing counted, so it is a log
	d.at(183*second - 1)
	d.want(rule.Take, 1, 1, false, 0, 1)
	d.at(183 * second)
	d.want(rule.Take, 1, 1, true, 0, 0)
}

// refusalsConvertNothing: only a charge turns a log into parts, so the units of a log still expire exactly a window after their charge.
func (d *defaults) refusalsConvertNothing() {
	d.t.Helper()
	for title, do := range map[string]func(large *store.Limit){
		"refusal":        func(large *store.Limit) { d.take(large, d.key, 551) },
		"grant refused":  func(*store.Limit) { d.single(rule.TakeUpTo, d.limit(20), d.key, 1) },
		"peek":           func(large *store.Limit) { d.single(rule.Peek, large, d.key, 1) },
		"take nothing":   func(large *store.Limit) { d.take(large, d.key, 0) },
		"charge nothing": func(large *store.Limit) { d.single(rule.Charge, large, d.key, 0) },
		"settlement": func(large *store.Limit) {
			c := store.Charge{Limit: large, Key: d.key, Cost: 1, Used: 1, At: d.start + second/2}
			d.bothAs(77, rule.Settle, "", c)
		},
		"give back": func(large *store.Limit) { d.giveBack(large, d.key, 1, d.start+second/2) },
		"refund":    func(large *store.Limit) { d.giveBack(large, d.key, 1, rule.Oldest) },
	} {
		d.begin(title)
		d.at(second / 2)
		d.want(rule.Take, 100, 50, true, 50, 0)
		d.at(30 * second)
		do(d.limit(600))
		d.at(60*second + second/2 - 1)
		if a := d.single(rule.Peek, d.limit(100), d.key, 100); a.Allowed || a.RetryAfter != 1 {
			d.fatalf("got %+v, want a refusal for a microsecond: the log expires exactly a window after its charge", a)
		}
		d.at(60*second + second/2)
		d.want(rule.Take, 100, 100, true, 0, 0)
	}
}

// loweredForAMoment: nothing that is done under a smaller quota drops units.
func (d *defaults) loweredForAMoment() {
	d.t.Helper()
	for i, step := range []struct {
		op         rule.Op
		limit      *store.Limit
		cost, left int64 // left of 100 afterwards
	}{
		{rule.Charge, d.limit(10), 1, 9},
		{rule.Charge, d.limit(10), 40, 0},
		{rule.GiveBack, d.limit(10), 1, 11},
		{rule.GiveBack, d.limit(10), 30, 40},
		{rule.Take, d.limit(10), 1, 10},
		{rule.Take, d.counting(10), 3, 7},
		{rule.TakeUpTo, d.counting(10), 3, 9}, // a refusal of one unit
	} {
		d.begin(fmt.Sprintf("lowered %d", i))
		d.want(rule.Take, 100, 60, true, 40, 0)
		d.at(second)
		d.want(rule.Take, 100, 30, true, 10, 0)
		d.at(2 * second)
		d.single(step.op, step.limit, d.key, step.cost)
		if a := d.single(rule.Peek, d.limit(100), d.key, 0); a.Remaining != step.left {
			d.fatalf("got %+v, want %d left", a, step.left)
		}
	}
}

// givesBackAfterConversion: what left the window while the state was a log is not in its parts, and giving it back must not take a
// unit of another request from the part that contains its time.
func (d *defaults) givesBackAfterConversion() {
	d.t.Helper()
	const a, b = second / 10, 9 * second / 10
	settle := func(id rule.ID, at rule.Micros, back, left int64, flags rule.Flags) {
		d.t.Helper()
		c := store.Charge{Limit: d.limit(10), Key: d.key, Cost: 1, At: d.start + at}
		got := d.bothAs(id, rule.Settle, "", c)[0]
		if got.Granted != back || got.Flags != flags {
			d.fatalf("settled: got %+v, want %d back and flags %v", got, back, flags)
		}
		if peek := d.single(rule.Peek, d.limit(200), d.key, 0); peek.Remaining != left {
			d.fatalf("settled: %d of 200 are left, want %d", peek.Remaining, left)
		}
	}
	d.begin("settled after conversion")
	d.at(a)
	d.want(rule.Take, 10, 1, true, 9, 0)
	d.at(b)
	d.want(rule.Take, 10, 1, true, 8, 0)
	d.at(minute + second/2)
	d.want(rule.Take, 200, 1, true, 198, 0)
	d.returns(200, 1, d.start+a, 0, 198)
	settle(1, a, 0, 198, 0)
	settle(2, b, 1, 199, 0)
	settle(2, b, 1, 199, rule.Repeated)
	settle(1, a, 0, 199, rule.Repeated)
	d.begin("given back after the window")
	d.at(a)
	d.want(rule.Take, 200, 1, true, 199, 0)
	d.at(b)
	d.want(rule.Take, 200, 1, true, 198, 0)
	d.at(a + minute - 1)
	d.returns(200, 1, d.start+a, 1, 199)
	d.at(b + minute)
	d.returns(200, 1, d.start+b, 0, 199) // the part still counts, but the window of the unit has passed
	d.returns(200, 1, rule.Oldest, 1, 200)
}

// forced: charges that cannot be refused, and refusals that count, overwrite nothing. The 101st unit makes a log parts.
func (d *defaults) forced() {
	d.t.Helper()
	d.begin("forced")
	d.at(second / 2)
	d.want(rule.Charge, 5, 100, true, 0, 0)
	d.at(second)
	d.want(rule.Take, 100, 1, false, 0, 59*second+second/2) // a log of 100 units
	d.want(rule.Charge, 5, 1, true, 0, 0)
	d.at(60*second + second/2)
	d.want(rule.Take, 100, 1, false, 0, second/2) // in parts now
	d.at(61 * second)
	d.want(rule.Take, 100, 99, true, 0, 0)
	d.want(rule.Charge, 1, rule.MaxQuota, true, 0, 0) // counts saturate
	d.begin("counted")
	counting := d.counting(60)
	d.at(second / 2)
	d.wantOf(counting, rule.Take, 60, true, 0, 0)
	d.wantOf(counting, rule.Take, 40, false, 0, minute)
	d.want(rule.Take, 100, 1, false, 0, minute)
	d.wantOf(counting, rule.Take, 1, false, 0, minute+second/2) // the 101st unit
	d.want(rule.Peek, 101, 1, false, 0, minute+second/2)
}

// leased: a limit with lease is in parts at every quota.
func (d *defaults) leased() {
	d.t.Helper()
	d.begin("leased")
	leased := d.bindRule("default", rule.Limit{Quota: 5, Window: minute, Lease: true})
	if leased == nil || layering.Lease.In(d.store) { // which answers for the store
		return
	}
	d.at(second / 2)
	d.want(rule.Take, 5, 1, true, 4, 0)
	d.at(6 * second / 10)
	if a := d.single(rule.Take, leased, d.key, 1); a.ResetAfter != minute+4*second/10 {
		d.fatalf("got %+v, want all free at the end of the part, and a window", a)
	}
	d.want(rule.Peek, 5, 4, false, 3, minute+4*second/10)
}

// emptyParts: parts in which nothing counts any more are as a key never seen.
func (d *defaults) emptyParts() {
	d.t.Helper()
	d.begin("empty parts")
	d.at(30 * second)
	d.want(rule.Take, 200, 1, true, 199, 0)
	d.returns(200, 1, d.start+30*second, 1, 200)
	d.at(20 * second)
	if a := d.want(rule.Take, 2, 1, true, 1, 0); a.At != d.start+20*second {
		d.fatalf("got %+v, want it decided at the time of the clock", a)
	}
	d.at(80*second - 1)
	d.want(rule.Take, 2, 2, false, 1, 1)
	d.at(80 * second)
	d.want(rule.Take, 2, 2, true, 0, 0)
}

// secondLimiter: two limiters with different quotas, as those of two files, share all units.
func (d *defaults) secondLimiter() {
	d.t.Helper()
	d.begin("second limiter")
	small, large := slidegate.PerMinute(60), slidegate.PerMinute(600)
	small.Name, large.Name = "files", "files"
	var limiters []*slidegate.Limiter
	for _, limit := range []slidegate.Limit{small, large} {
		l, err := slidegate.New(slidegate.Namespace(d.store, d.namespace), limit)
		if err != nil {
			d.fatalf("no limiter: %v", err)
		}
		limiters = append(limiters, l)
	}
	for i, step := range []struct {
		limiter       int
		cost, granted int64
	}{{0, 50, 50}, {1, 1000, 550}, {0, 1, 0}, {1, 1, 0}} {
		got, err := limiters[step.limiter].AllowUpTo(context.Background(), d.key, step.cost)
		if err != nil || got.Granted != step.granted {
			d.fatalf("limiter of %v, step %d: got %v and the error %v, want %d granted", limiters[step.limiter].Limits(), i, got, err, step.granted)
		}
		d.clock.Advance(rule.Micros(time.Second.Microseconds()))
	}
}

// severalLimits: a request that another limit refuses converts nothing.
func (d *defaults) severalLimits() {
	d.t.Helper()
	d.begin("several limits")
	full := store.Charge{Limit: d.bindRule("full", rule.Limit{Quota: 120, Window: minute}), Key: d.key, Cost: 60}
	take := func(quota, cost, left int64, others ...store.Charge) []rule.Answer {
		d.t.Helper()
		a := d.both(rule.Take, "group", append([]store.Charge{{Limit: d.limit(quota), Key: d.key, Cost: cost}}, others...)...)
		if !a[0].Allowed || a[0].Remaining != left {
			d.fatalf("got %+v, want an admission with %d left", a, left)
		}
		return a
	}
	d.at(second / 2)
	take(100, 60, 40, full)
	d.at(second)
	full.Cost = 61
	if a := take(600, 60, 540, full); a[1].Allowed {
		d.fatalf("got %+v, want a refusal by the second limit", a)
	}
	d.at(60*second + second/2)
	take(100, 100, 0) // still a log
	d.at(61 * second)
	take(600, 60, 440, full)
}

// sequences plays at random with quotas on both sides of 100.
func (d *defaults) sequences(index int, window rule.Micros, n int) {
	d.t.Helper()
	limits := []rule.Limit{{Quota: 100}, {Quota: 3}, {Quota: 40}, {Quota: 100, CountRefused: true}, {Quota: 7, CountRefused: true}, {Quota: 101}, {Quota: 600}, {Quota: 200, CountRefused: true}}
	if window >= minute && !layering.Lease.In(d.store) { // parts shorter than 250 ms are not leased
		limits = append(limits, rule.Limit{Quota: 60, Lease: true}, rule.Limit{Quota: 800, Lease: true})
	}
	for i := range limits {
		limits[i].Window = window
	}
	q := d.sequenceOf(700+index, append(givingBack, everyOp...), limits[0])
	if q == nil {
		return
	}
	q.evenly = true
	for _, limit := range limits[1:] {
		q.subjects[0].variants = append(q.subjects[0].variants, d.bindRule(q.subjects[0].variants[0].Name(), limit))
	}
	q.play(n)
}
