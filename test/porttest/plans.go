package porttest

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/test/kit"
)

// plans is a store with a test's clock, and one key that changes between plans.
type plans struct {
	t    *testing.T
	base *slidegate.Limiter
	now  *rule.Micros
	key  string
}

// ChangedPlans checks on a store that what was used stays used when a key changes between a small and a large limit, whatever
// is settled, cancelled, refunded, released or renewed under the limit of before.
func ChangedPlans(t *testing.T, open Open) {
	t.Helper()
	now := rule.Micros(1_767_000_000e6)
	st := open(t, func() rule.Micros { return now })
	for name, play := range map[string]func(*plans){
		"cancelled after a bucket's upgrade":       (*plans).cancelUpgradedBucket,
		"settled after a log's upgrade":            (*plans).settleUpgradedLog,
		"cancelled after a bucket's downgrade":     (*plans).cancelDowngradedBucket,
		"settled more after a downgrade":           (*plans).settleDowngradedBucket,
		"refunded after a bucket's downgrade":      (*plans).refundDowngradedBucket,
		"refused after the clock was set back":     (*plans).moveDowngradedBucket,
		"a log that was lowered for a moment":      (*plans).lowerLog,
		"slots that were lowered for a moment":     (*plans).lowerSlots,
		"a counted refusal of an overdrawn bucket": (*plans).refuseOverdrawnBucket,
		"settled again long after the window":      (*plans).settleAgainLater,
		"a default that was lowered for a moment":  (*plans).lowerDefault,
		"a default on both sides of 100":           (*plans).raiseDefault,
		"cancelled after a default became parts":   (*plans).cancelOldDefault,
	} {
		t.Run(name, func(t *testing.T) {
			now = 1_767_000_000e6
			play(&plans{t, kit.Must(slidegate.New(st, slidegate.Limit{Name: "base", Quota: 1, Window: time.Hour}))(t), &now, t.Name() + time.Now().String()})
		})
	}
}

// with returns a limiter of a plan.
func (p *plans) with(algorithm rule.Algorithm, quota, burst int64, countRefused bool) *slidegate.Limiter {
	p.t.Helper()
	return kit.Must(p.base.With(slidegate.Limit{
		Name: "plan", Algorithm: algorithm, Quota: quota, Burst: burst, Window: time.Hour, CountRefused: countRefused,
	}))(p.t)
}

func (p *plans) reserve(l *slidegate.Limiter, n int64) slidegate.Reservation {
	p.t.Helper()
	r, d, err := l.Reserve(p.t.Context(), p.key, n)
	if err != nil || !d.Allowed {
		p.t.Fatalf("reserving %d: got %+v, %v", n, d, err)
	}
	return r
}

func (p *plans) take(l *slidegate.Limiter, n int64) {
	p.t.Helper()
	if d := kit.Must(l.AllowN(p.t.Context(), p.key, n))(p.t); !d.Allowed {
		p.t.Fatalf("taking %d: got %+v", n, d)
	}
}

// takesUpTo checks how many units are left, by taking them.
func (p *plans) takesUpTo(what string, l *slidegate.Limiter, want int64) {
	p.t.Helper()
	if d := kit.Must(l.AllowUpTo(p.t.Context(), p.key, 10_000))(p.t); d.Granted != want {
		p.t.Errorf("%s: got %d units, want %d", what, d.Granted, want)
	}
}

// waits checks how long n units have to wait.
func (p *plans) waits(what string, l *slidegate.Limiter, n int64, want time.Duration) {
	p.t.Helper()
	if d := kit.Must(l.Peek(p.t.Context(), p.key, n))(p.t); d.Allowed || d.RetryAfter != want {
		p.t.Errorf("%s: got %+v, want to wait %v", what, d, want)
	}
}

// settle settles a reservation, and checks how many units that returned or, if negative, charged.
func (p *plans) settle(l *slidegate.Limiter, r slidegate.Reservation, used, want int64) {
	p.t.Helper()
	if s := kit.Must(l.SettleAll(p.t.Context(), r, used))(p.t); s.Returned[0] != want {
		p.t.Errorf("settling with %d used: got %+v, want %d returned", used, s, want)
	}
}

func (p *plans) cancelUpgradedBucket() {
	small, large := p.with(slidegate.TokenBucket, 10, 0, false), p.with(slidegate.TokenBucket, 1000, 0, false)
	var reserved []slidegate.Reservation
	for range 4 {
		reserved = append(reserved, p.reserve(small, 2))
	}
	p.take(large, 992)
	for _, r := range reserved {
		p.settle(small, r, 0, 2)
		p.takesUpTo("after a reservation of 2 was cancelled", large, 2)
	}
}

func (p *plans) settleUpgradedLog() {
	small, large := p.with(slidegate.SlidingLog, 10, 0, false), p.with(slidegate.SlidingLog, 1000, 0, false)
	first, second := p.reserve(small, 2), p.reserve(small, 2)
	*p.now += 60e6
	p.take(large, 996)
	p.settle(small, first, 3, -1)
	p.takesUpTo("after one unit more was used", large, 0)
	p.settle(small, second, 0, 2)
	p.takesUpTo("after a reservation of 2 was cancelled", large, 2)
	*p.now += 3600e6 - 60e6 // what was reserved expires; the unit that was used in addition took the place of the oldest
	p.takesUpTo("an hour after the reservations", large, 1)
}

func (p *plans) cancelDowngradedBucket() {
	large, slow := p.with(slidegate.TokenBucket, 1000, 0, false), p.with(slidegate.TokenBucket, 10, 1000, false)
	r := p.reserve(large, 5)
	p.take(slow, 995)
	p.settle(large, r, 0, 5)
	*p.now += 3602e6
	p.waits("an hour later", slow, 1000, 995*6*time.Minute-3602*time.Second)
}

func (p *plans) settleDowngradedBucket() {
	large, slow := p.with(slidegate.TokenBucket, 1000, 0, false), p.with(slidegate.TokenBucket, 10, 1000, false)
	r := p.reserve(large, 5)
	p.take(slow, 995)
	p.settle(large, r, 15, -10)
	*p.now += 3600e6
	p.waits("an hour later", slow, 1000, 1000*6*time.Minute-time.Hour) // the end is that of the charge before
}

func (p *plans) refundDowngradedBucket() {
	large, slow := p.with(slidegate.TokenBucket, 1000, 0, false), p.with(slidegate.TokenBucket, 10, 1000, false)
	p.take(large, 1000)
	*p.now += 59 * 60e6
	p.waits("59 minutes after it was drained", slow, 500, time.Minute)
	kit.Must(slow.Refund(p.t.Context(), p.key, 1))(p.t)
	p.waits("after a unit was refunded", slow, 500, time.Minute)
	*p.now += 60e6
	p.takesUpTo("when the state ends", slow, 1000)
}

func (p *plans) moveDowngradedBucket() {
	large, slow := p.with(slidegate.TokenBucket, 1000, 0, false), p.with(slidegate.TokenBucket, 10, 1000, false)
	p.take(large, 1000)
	*p.now -= 2 * 3600e6
	if d := kit.Must(slow.AllowN(p.t.Context(), p.key, 500))(p.t); d.Allowed || d.RetryAfter != time.Hour {
		p.t.Errorf("after the clock was set back: got %+v, want to wait for the end, an hour", d)
	}
	*p.now += 1800e6
	p.waits("half an hour later", slow, 500, 30*time.Minute)
}

func (p *plans) refuseOverdrawnBucket() {
	large, slow := p.with(slidegate.TokenBucket, 1000, 0, false), p.with(slidegate.TokenBucket, 10, 500, true)
	p.take(large, 1000)
	*p.now += 1800e6
	if d := kit.Must(slow.AllowN(p.t.Context(), p.key, 1))(p.t); d.Allowed || d.RetryAfter != 30*time.Minute {
		p.t.Errorf("overdrawn: got %+v, want to wait for the end, half an hour", d)
	}
	p.takesUpTo("a half is refilled under the large limit", large, 500)
}

func (p *plans) lowerLog() {
	ctx := p.t.Context()
	small, counted, large := p.with(slidegate.SlidingLog, 10, 0, false), p.with(slidegate.SlidingLog, 10, 0, true), p.with(slidegate.SlidingLog, 1000, 0, false)
	key := p.key
	for what, lowered := range map[string]struct {
		call func() (slidegate.Decision, error)
		left int64
	}{
		"a charge":          {func() (slidegate.Decision, error) { return small.Charge(ctx, p.key, 1) }, 0},
		"a refund":          {func() (slidegate.Decision, error) { return small.Refund(ctx, p.key, 1) }, 1},
		"a refusal":         {func() (slidegate.Decision, error) { return small.Allow(ctx, p.key) }, 0},
		"a counted refusal": {func() (slidegate.Decision, error) { return counted.Allow(ctx, p.key) }, 0},
	} {
		p.key = key + what
		p.take(large, 1000)
		*p.now += 1e6
		kit.Must(lowered.call())(p.t)
		p.takesUpTo("after "+what, large, lowered.left)
	}
}

func (p *plans) lowerSlots() {
	ctx := p.t.Context()
	few, many := p.with(slidegate.InFlight, 2, 0, false), p.with(slidegate.InFlight, 10, 0, false)
	var held []slidegate.Reservation
	for range 8 {
		r, d, err := many.Acquire(ctx, p.key)
		if err != nil || !d.Allowed {
			p.t.Fatalf("acquiring: got %+v, %v", d, err)
		}
		held = append(held, r)
		*p.now += 1e6
	}
	for i := range held { // as if they had been acquired under the lower limit
		held[i].Charges[0].Limit.Quota = 2
	}
	if d := kit.Must(few.Renew(ctx, held[3]))(p.t); !d.Allowed || d.Remaining != 0 {
		p.t.Errorf("renewing: got %+v, want it held", d)
	}
	kit.Must(few.Release(ctx, held[5]))(p.t)
	if d := kit.Must(many.Peek(ctx, p.key, 1))(p.t); d.Remaining != 3 {
		p.t.Errorf("after one of 8 was released: got %+v, want 3 of 10 remaining", d)
	}
}

func (p *plans) settleAgainLater() {
	ctx := p.t.Context()
	second := kit.Must(p.base.With(slidegate.Limit{Name: "second", Algorithm: slidegate.SlidingLog, Quota: 10, Window: time.Second}))(p.t)
	r := p.reserve(second, 2)
	p.settle(second, r, 5, -3)
	for range 9 {
		*p.now += 60e6
		if s := kit.Must(second.SettleAll(ctx, r, 5))(p.t); !s.Repeated || s.Returned[0] != -3 {
			p.t.Errorf("settled again: got %+v, want what the first did", s)
		}
		p.takesUpTo("after a repeated settlement", second, 10)
	}
}

func (p *plans) lowerDefault() {
	ctx := p.t.Context()
	small, counted, large := p.with(rule.DefaultAlgorithm, 10, 0, false), p.with(rule.DefaultAlgorithm, 10, 0, true), p.with(rule.DefaultAlgorithm, 100, 0, false)
	key := p.key
	for what, lowered := range map[string]struct {
		call func() (slidegate.Decision, error)
		left int64
	}{
		"a charge":             {func() (slidegate.Decision, error) { return small.Charge(ctx, p.key, 1) }, 9},
		"a charge of too many": {func() (slidegate.Decision, error) { return small.Charge(ctx, p.key, 11) }, 0}, // 101 are in parts
		"a refund":             {func() (slidegate.Decision, error) { return small.Refund(ctx, p.key, 1) }, 11},
		"a refusal":            {func() (slidegate.Decision, error) { return small.Allow(ctx, p.key) }, 10},
		"a counted refusal":    {func() (slidegate.Decision, error) { return counted.Allow(ctx, p.key) }, 9},
	} {
		p.key = key + what
		p.take(large, 90)
		*p.now += 1e6
		kit.Must(lowered.call())(p.t)
		p.takesUpTo("after "+what, large, lowered.left)
	}
}

func (p *plans) raiseDefault() {
	small, large := p.with(rule.DefaultAlgorithm, 60, 0, false), p.with(rule.DefaultAlgorithm, 600, 0, false)
	p.take(small, 60)
	*p.now += 90e6
	p.waits("at the quota", small, 1, time.Hour-90*time.Second)
	p.takesUpTo("upgraded", large, 540)
	p.waits("downgraded", small, 1, 61*time.Minute-30*time.Second) // parts of a minute: 540 units were charged in the one that began 30 s ago
	*p.now += 3600e6 - 90e6
	p.waits("an hour after the first", large, 60, time.Minute) // which counts until its part has left the window
	*p.now += 60e6
	p.takesUpTo("when the first have left", large, 60)
}

// A unit that was cancelled late had left the log when that became parts. What is still in its part is not its own.
func (p *plans) cancelOldDefault() {
	small, large := p.with(rule.DefaultAlgorithm, 60, 0, false), p.with(rule.DefaultAlgorithm, 600, 0, false)
	*p.now += 1e5
	first := p.reserve(small, 1)
	*p.now += 8e5
	second := p.reserve(small, 1)
	*p.now += 3600e6 - 4e5 // the first is older than an hour, the second is not
	p.take(large, 1)
	p.settle(small, first, 0, 0)
	p.takesUpTo("after the first was cancelled", large, 598)
	p.settle(small, second, 0, 1)
	p.takesUpTo("after the second was cancelled", large, 1)
}
