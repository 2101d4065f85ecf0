package memstore

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// drawDefaults returns limits of one window that name no algorithm, with quotas on both sides of rule.DefaultLog.
func drawDefaults(t *testing.T, random *rand.Rand, most int64) []rule.Limit {
	window := rule.Micros(1_000) << random.IntN(37)
	limits := make([]rule.Limit, 5)
	for i := range limits {
		limits[i] = rule.Limit{Quota: drawn(random, most), Window: window, CountRefused: random.IntN(6) == 0}
		if i%2 == 1 {
			limits[i].Quota = min(most, 1+random.Int64N(130))
		}
		limits[i] = normal(t, limits[i])
		limits[i].Lease = !limits[i].CountRefused && random.IntN(6) == 0
	}
	return limits
}

// playDefault plays a script over a slot, and returns how often it had each layout afterwards.
func playDefault(t *testing.T, seed uint64, most int64, steps int) (p *lineScript, seen [5]int) {
	p = newLineScript(t, seed)
	p.even = seed/8%2 == 1
	memory, taken := unlimitedSlab()
	limits := drawDefaults(t, p.random, most)
	f := newDefaultForm(memory, &limits[0])
	p.form, p.now = f, p.origin(limits[0].Window)
	for range steps / 20 {
		p.play(20, limits[:1+p.random.IntN(len(limits))])
		control, want := p.slot[controlWord].Load(), 0
		if control&inParts == 0 {
			seen[4]++
			u := logFields(control)
			if u.hasChain() {
				want = f.log.linesOf(u.offset() + u.total() - u.front() - u.back())
			}
		} else {
			seen[kindOf(control)]++
			want = f.linesOf(kindOf(control))
			p.checkSum(f, control)
		}
		if n := linesInUse(memory); n != want {
			t.Fatalf("seed %d: %d lines are in use, want %d", seed, n, want)
		}
	}
	checkNoLine(t)
	p.write(func(control uint64) uint64 { return f.clear(p.slot, control) })
	memory.trim()
	if n := taken.now.Load(); n != 0 {
		t.Fatalf("seed %d: %d bytes were not released", seed, n)
	}
	return p, seen
}

// checkSum fails unless the sum in the slot is that of the older counts.
func (p *lineScript) checkSum(f *defaultForm, control uint64) {
	var s rule.State
	f.load(p.slot, control, &s)
	sum := int64(0)
	for _, count := range s.Counts[1:] {
		sum += count
	}
	if got := p.slot.older(kindOf(control)); got != sum {
		p.t.Fatalf("the slot says %d for a sum of %d", got, sum)
	}
}

func TestDefaultFormDecidesAsTheRule(t *testing.T) {
	Alone(t)
	quick, seen := 0, [5]int{}
	const seeds, steps = 320, 1000
	for seed := range uint64(seeds) {
		most := []int64{60, 120, 700, 5_000, 300_000, 1 << 30, rule.MaxQuota, 1_000}[seed%8]
		p, layouts := playDefault(t, seed, most, steps)
		quick += p.quick
		for i, n := range layouts {
			seen[i] += n
		}
	}
	t.Logf("%d of %d used the fast path; pairs, bytes, shorts, words, logs: %v", quick, seeds*steps, seen)
	if quick < seeds*steps/2 {
		t.Errorf("only %d of %d takes used the fast path", quick, seeds*steps)
	}
	for i, n := range seen {
		if n < 100 {
			t.Errorf("layout %d was seen %d times: the test proves nothing about it", i, n)
		}
	}
}

// A stored state can be loaded again, whatever the slot contained before.
func TestDefaultFormStores(t *testing.T) {
	p := newLineScript(t, 1)
	limit := normal(t, rule.Limit{Quota: 1_000, Window: 60_000_000})
	memory, _ := unlimitedSlab()
	f := newDefaultForm(memory, &limit)
	p.form = f
	for range 3_000 {
		s := rule.State{Start: testStart}
		switch used := p.random.IntN(limit.Parts() + 1); p.random.IntN(5) {
		case 0:
			s = rule.State{}
			s.Log.Restart(used, limit.Window)
			for i := range used {
				s.Log.Append(testStart + rule.Micros(i))
			}
		default:
			s.Counts = make([]int64, limit.Parts())
			most := int64(1) << (1 + p.random.IntN(53))
			for range used {
				s.Counts[p.random.IntN(limit.Parts())] = p.random.Int64N(most)
			}
		}
		p.want = s
		p.store(&s)
		p.same(&s, &limit)
	}
}

// A busy key that becomes quiet is in pairs again within a window, and one whose units have all expired at once.
func TestDefaultFormBecomesSmallAgain(t *testing.T) {
	limit := normal(t, rule.Limit{Quota: 1_000, Window: 60_000_000})
	memory, _ := unlimitedSlab()
	p := newLineScript(t, 1)
	p.form, p.now = newDefaultForm(memory, &limit), testStart
	busy := func() {
		for range 60 {
			p.now += 1_000_000
			p.take(&limit, 5)
		}
		if n := linesInUse(memory); n != 1 {
			t.Fatalf("a busy key takes %d lines more, want 1", n)
		}
	}
	busy()
	for range 13 {
		p.now += 10_000_000
		p.take(&limit, 1)
	}
	if n := linesInUse(memory); n != 0 {
		t.Errorf("a quiet key still takes %d lines more", n)
	}
	busy()
	p.now += 61_000_000
	p.take(&limit, 1)
	if n := linesInUse(memory); n != 0 {
		t.Errorf("a key whose units have expired still takes %d lines more", n)
	}
}

// Every admitted unit is counted in the part of its time, and no window ever holds more than the quota.
func TestDefaultFormUnderContention(t *testing.T) {
	for _, limit := range []rule.Limit{{Quota: 2_500, Window: 60_000_000}, {Quota: 100, Window: 60_000_000}} {
		limit = normal(t, limit)
		memory, _ := unlimitedSlab()
		p := newHammered(newDefaultForm(memory, &limit), testStart)
		p.hammer(&limit, 0)
		s := p.state()
		if used := limit.Used(&s, testStart); p.admitted.Load() != limit.Quota || used != limit.Quota || p.refused.Load() == 0 {
			t.Errorf("%d were admitted and %d counted, with a quota of %d", p.admitted.Load(), used, limit.Quota)
		}
		p = newHammered(newDefaultForm(memory, &limit), testStart)
		const bins = 400
		var byPart [bins]atomic.Int64 // units admitted in each part
		p.admittedAt = func(at rule.Micros, cost int64) {
			byPart[(at-testStart)/1_000_000].Add(cost)
		}
		p.hammer(&limit, 500_000)
		for first := range bins - 61 {
			var units int64
			for part := range 60 {
				units += byPart[first+part].Load()
			}
			if units > limit.Quota {
				t.Errorf("%d units were admitted in the window of part %d", units, first)
			}
		}
		if s = p.state(); s.InParts() {
			last := int((s.Start - testStart) / 1_000_000)
			for age, count := range s.Counts {
				if part := last - age; part >= 0 && byPart[part].Load() != count {
					t.Errorf("%d were admitted in part %d, and %d counted", byPart[part].Load(), part, count)
				}
			}
		}
	}
}
