package memstore

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// drawParts returns limits of one shape with any valid quota up to most, and any overlap.
func drawParts(t *testing.T, random *rand.Rand, segments int, most int64) []rule.Limit {
	parts := rule.Micros(segments)
	part := (rule.Micros(1_000)+parts-1)/parts + rule.Micros(random.Int64N(int64((rule.MaxWindow-rule.Micros(1_000))/parts))>>random.IntN(48))
	shape := rule.Limit{Algorithm: rule.SlidingWindow, Segments: segments, Window: parts * part, Anchor: rule.Anchor(random.IntN(2))}
	limits := make([]rule.Limit, 4)
	for i := range limits {
		limits[i] = shape
		limits[i].Quota, limits[i].Overlap = drawn(random, most), rule.Overlap(random.IntN(3))
		limits[i].CountRefused = random.IntN(6) == 0
		limits[i] = normal(t, limits[i])
	}
	return limits
}

// playParts plays a script over a slot of the narrow layout, which becomes wide if necessary.
func playParts(t *testing.T, seed uint64, segments int, most int64) *lineScript {
	p := newLineScript(t, seed)
	limits := drawParts(t, p.random, segments, most)
	p.form, p.now = newPartsForm(&limits[0], false), p.origin(limits[0].Window)
	p.widen = func() lineForm { return newPartsForm(&limits[0], true) }
	p.play(300, limits)
	return p
}

func TestPartsFormDecidesAsTheRule(t *testing.T) {
	Alone(t)
	quick, wide := 0, 0
	for seed := range uint64(250) {
		segments := []int{2, 3, 6, 7, 12, 60, 63, 64}[seed%8]
		most := []int64{60, 3_000, 200_000, rule.MaxQuota}[seed/8%4]
		p := playParts(t, seed, segments, most)
		quick += p.quick
		if p.form.(*partsForm).wide {
			wide++
		}
	}
	if quick < 250*300/2 || wide == 0 {
		t.Errorf("only %d takes used the fast path, and %d slots became wide", quick, wide)
	}
}

// Slots of 6 parts take one line, those of 60 three.
func TestPartsFormLines(t *testing.T) {
	for _, c := range []struct {
		segments int
		wide     bool
		lines    int
	}{{2, false, 1}, {6, false, 1}, {15, false, 1}, {16, false, 2}, {60, false, 3}, {64, false, 3}, {6, true, 2}, {60, true, 9}, {64, true, 9}} {
		limit := normal(t, rule.Limit{Algorithm: rule.SlidingWindow, Segments: c.segments, Quota: 1, Window: rule.Micros(c.segments) * 1_000_000})
		if got := newPartsForm(&limit, c.wide).lines(); got != c.lines {
			t.Errorf("%+v takes %d lines", c, got)
		}
	}
}

// A stored state can be loaded again, in both layouts, whatever the slot contained before; a narrow slot that cannot hold
// it stays unchanged.
func TestPartsFormStores(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for _, wide := range []bool{false, true} {
		limit := normal(t, rule.Limit{Algorithm: rule.SlidingWindow, Segments: 7, Quota: 10, Window: 7_000_000})
		p := newLineScript(t, 1)
		f := newPartsForm(&limit, wide)
		p.form = f
		for range 500 {
			s := rule.State{Start: rule.Micros(random.Int64N(int64(rule.MaxNow)))}
			most := int64(1) << (1 + random.IntN(52))
			if random.IntN(2) == 0 {
				most = 1 << 16
			}
			for range limit.Parts() {
				s.Counts = append(s.Counts, random.Int64N(most))
			}
			if slices.Max(s.Counts) <= int64(partsNarrow) || wide {
				p.want = s
				p.store(&s)
			} else if _, outcome := f.store(p.slot, p.slot[controlWord].Load(), &s); outcome != tooWide || f.fits(&s, 0) {
				t.Fatalf("%v were stored in 16 bits each", s.Counts)
			}
			p.same(&p.want, &limit)
			if random.IntN(20) == 0 {
				p.write(func(control uint64) uint64 { return f.clear(p.slot, control) })
				p.want = rule.State{}
				p.same(&p.want, &limit)
			}
		}
	}
}

// A count goes up to 65,535 in the narrow layout; anything beyond is left to the slow path, in the current part and in a
// new one.
func TestPartsFormNarrowCounts(t *testing.T) {
	limit := normal(t, rule.Limit{Algorithm: rule.SlidingWindow, Segments: 6, Quota: 1 << 20, Window: 60_000_000})
	for _, c := range []struct {
		later rule.Micros
		cost  int64
		quick int
	}{{0, 5, 1}, {0, 6, 0}, {10_000_000, 65_535, 1}, {10_000_000, 65_536, 0}, {100_000_000, 65_535, 1}, {100_000_000, 65_536, 0}} {
		p := newLineScript(t, 1)
		p.form, p.now = newPartsForm(&limit, false), 1_767_225_600_000_000
		p.widen = func() lineForm { return newPartsForm(&limit, true) }
		p.want = rule.State{Start: p.now, Counts: []int64{65_530, 1, 2, 3, 4, 5, 65_535}}
		p.store(&p.want)
		p.now += c.later
		p.take(&limit, c.cost)
		if p.quick != c.quick || p.form.(*partsForm).wide != (c.quick == 0) {
			t.Errorf("%+v: %d used the fast path", c, p.quick)
		}
	}
}

// Every admitted unit is counted in the part of its time, and with `whole` no window ever holds more than the quota.
func TestPartsFormUnderContention(t *testing.T) {
	for _, wide := range []bool{false, true} {
		limit := normal(t, rule.Limit{Algorithm: rule.SlidingWindow, Segments: 6, Overlap: rule.OverlapWhole, Quota: 2_500, Window: 60_000_000})
		p := newHammered(newPartsForm(&limit, wide), 1_767_225_600_000_000)
		p.hammer(&limit, 0)
		s := p.state()
		if p.admitted.Load() != limit.Quota || s.Counts[0] != limit.Quota || p.refused.Load() == 0 {
			t.Errorf("%d were admitted and %d counted, with a quota of %d", p.admitted.Load(), s.Counts[0], limit.Quota)
		}
		p = newHammered(newPartsForm(&limit, wide), 1_767_225_600_000_000)
		var byPart [64]atomic.Int64 // units admitted in each part
		p.admittedAt = func(at rule.Micros, cost int64) {
			byPart[(at-1_767_225_600_000_000)/10_000_000].Add(cost)
		}
		p.hammer(&limit, 500_000)
		s = p.state()
		last := int((s.Start - 1_767_225_600_000_000) / 10_000_000)
		for age, count := range s.Counts {
			if part := last - age; part >= 0 && byPart[part].Load() != count {
				t.Errorf("%d were admitted in part %d, and %d counted", byPart[part].Load(), part, count)
			}
		}
		for first := range len(byPart) - limit.Parts() {
			var units int64
			for part := range limit.Parts() {
				units += byPart[first+part].Load()
			}
			if units > limit.Quota {
				t.Errorf("%d units were admitted in the window of part %d", units, first)
			}
		}
	}
}
