package memstore

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// hammered is a slot that several goroutines take from concurrently, while the clock advances.
type hammered struct {
	form     lineForm
	slot     *line
	now      atomic.Int64
	clock    clock
	admitted atomic.Int64 // units
	refused  atomic.Int64

	admittedAt func(at rule.Micros, cost int64) // optional
}

func newHammered(form lineForm, now rule.Micros) *hammered {
	p := &hammered{form: form, slot: &new(page).lines[40]}
	p.now.Store(int64(now))
	p.clock.now = func() rule.Micros { return rule.Micros(p.now.Load()) }
	p.slot[hashWord].Store(scriptHash)
	return p
}

// take uses the fast path, or the slow path if the case is uncommon.
func (p *hammered) take(limit *rule.Limit, cost int64) {
	outcome, _, _, _, at := p.form.take(p.slot, scriptHash, limit, &p.clock, cost, nil)
	if outcome == quick.Undecided {
		p.takeSlowly(limit, cost)
		return
	}
	p.count(outcome == quick.Admitted, cost, at)
}

func (p *hammered) takeSlowly(limit *rule.Limit, cost int64) {
	control, _ := p.slot.acquire()
	var s rule.State
	p.form.load(p.slot, p.slot[controlWord].Load(), &s)
	a, changed := limit.TakeOne(&s, p.clock.read(), cost)
	if changed {
		control, _ = p.form.store(p.slot, control, &s)
		p.slot.release(control)
	} else {
		p.slot.abandon(control)
	}
	p.count(a.Allowed, cost, a.At)
}

func (p *hammered) count(allowed bool, cost int64, at rule.Micros) {
	if !allowed {
		p.refused.Add(1)
		return
	}
	p.admitted.Add(cost)
	if p.admittedAt != nil {
		p.admittedAt(at, cost)
	}
}

// hammer runs workers that take, some of them on the slow path, and advance the clock by up to step at a time.
func (p *hammered) hammer(limit *rule.Limit, step int64) {
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 0))
			for range 2_000 {
				switch cost := random.Int64N(4); {
				case step > 0 && random.IntN(8) == 0:
					p.now.Add(random.Int64N(step))
				case random.IntN(16) == 0:
					p.takeSlowly(limit, cost)
				default:
					p.take(limit, cost)
				}
			}
		})
	}
	wg.Wait()
}

func (p *hammered) state() (s rule.State) {
	p.form.load(p.slot, p.slot[controlWord].Load(), &s)
	return s
}

// Every admitted unit is missing, except what was refilled, and no more is missing than possible.
func TestBucketFormUnderContention(t *testing.T) {
	limit := normal(t, rule.Limit{Algorithm: rule.TokenBucket, Quota: 5_000, Burst: 3_000, Window: 60_000_000})
	window := int64(limit.Window)
	for _, step := range []int64{0, 100, 10_000} {
		p := newHammered(newBucketForm(&limit), 1_767_225_600_000_000)
		begin := rule.Micros(p.now.Load())
		p.take(&limit, 2_000) // enough to keep the bucket from becoming full
		p.hammer(&limit, step)
		s := p.state()
		if got, want := s.Missing*window+s.Rest, p.admitted.Load()*window-limit.Quota*int64(s.Start-begin); got != want {
			t.Errorf("%d are missing, want %d, of %d admitted", got, want, p.admitted.Load())
		}
		if p.refused.Load() == 0 || s.Missing*window+s.Rest > limit.Burst*window {
			t.Errorf("%d were refused, and %d are missing", p.refused.Load(), s.Missing)
		}
	}
}

// A pause is long enough for another processor to decide many times.
func TestStepBack(t *testing.T) {
	const pauses = 1000
	begin := time.Now()
	for range pauses {
		stepBack()
	}
	if took := time.Since(begin) / pauses; took < 500*time.Nanosecond {
		t.Errorf("a pause takes %v, want at least 500ns", took)
	}
}
