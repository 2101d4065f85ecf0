package pgstore

import (
	"fmt"
	"math/big"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// The functions decide as the rule in Go does, bit for bit: over the whole accepted range of limits, states that all operations
// lead to, and clocks that jump. More than the default is tried with -rapid.checks.

func TestFunctionsAreTheRule(t *testing.T) {
	t.Parallel()
	pool := database(t, Options{})
	decided, run := 0, fmt.Sprint(time.Now().UnixNano())
	var games atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		w := newTwin()
		w.store = newStore(t, pool, Options{Now: w.clock})
		g := newGame(rt, t, w, fmt.Sprintf("%s-%d", run, games.Add(1)))
		for range 30 {
			g.moment()
		}
		decided += w.decided
	})
	t.Logf("%d decisions compared", decided)
}

// The short ways for the commonest requests decide as the rule does too: take for one key, take_many for several, where requests
// that are alike go together. In between other operations leave states that takes alone do not lead to.
func TestShortWaysAreTheRule(t *testing.T) {
	t.Parallel()
	pool := database(t, Options{})
	decided := 0
	var games atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		w := newTwin()
		w.store = newStore(t, pool, Options{Now: w.clock})
		g := newGame(rt, t, w, fmt.Sprint("short-", games.Add(1)), rule.SlidingWindow, rule.FixedWindow)
		for range 30 {
			if rapid.IntRange(0, 3).Draw(rt, "any") == 0 {
				g.moment()
			} else {
				g.runs()
			}
		}
		decided += w.decided
	})
	t.Logf("%d decisions compared", decided)
}

// runs asks for some keys, for each one or more times the same.
func (g *game) runs() {
	about := rapid.IntRange(0, len(g.subjects)-1).Draw(g.t, "about")
	g.twin.now = g.drawMoment(g.subjects[about])
	subjects := append(slices.Clone(g.subjects[about:]), g.subjects[:about]...)
	for _, s := range subjects[:oneOf(g.t, "of them", 1, len(subjects))] {
		limit := s.limits[rapid.IntRange(0, 1).Draw(g.t, "limit")]
		v := limit.Rule().Look(g.twin.state(limit, g.group, s.key), g.twin.now)
		cost := g.drawCost(limit.Rule(), v.Room)
		if rapid.Bool().Draw(g.t, "some fit") && v.Room > 0 {
			cost = max(1, v.Room/rapid.Int64Range(1, 4).Draw(g.t, "so many fit"))
		}
		for range rapid.IntRange(1, 5).Draw(g.t, "times") {
			s.last = g.twin.ask(slidegate.OpTake, g.group, slidegate.Charge{Limit: limit, Key: s.key, Cost: cost})[0]
		}
	}
	if err := g.twin.compare(); err != nil {
		g.t.Fatal(err)
	}
}

// game is one run of random questions about a few keys, with windows of much the same length, so that what is a moment of
// interest to one often is to others.
type game struct {
	t        *rapid.T
	twin     *twin
	group    string
	subjects []*subject
}

// subject is a key with limits of one shape, which share its state.
type subject struct {
	limits []*slidegate.BoundLimit
	key    string
	last   slidegate.Answer
}

// newGame has limits of all algorithms, or of some in one part.
func newGame(t *rapid.T, tb testing.TB, w *twin, namespace string, some ...rule.Algorithm) *game {
	g := &game{t: t, twin: w, group: rapid.SampledFrom([]string{"", "group"}).Draw(t, "group")}
	segments := rapid.IntRange(1, rule.MaxSegments).Draw(t, "segments")
	window := drawWindow(t, int64(segments))
	for i := range rapid.IntRange(1, 6).Draw(t, "keys") {
		l := rule.Limit{Algorithm: rule.Algorithm(rapid.IntRange(0, 3).Draw(t, "algorithm")), Window: window}
		if len(some) > 0 {
			l.Algorithm = rapid.SampledFrom(some).Draw(t, "one of some")
		}
		if l.Algorithm == rule.SlidingWindow {
			if l.Segments = 1; len(some) == 0 {
				l.Segments = oneOf(t, "segmented", 1, segments)
			}
		}
		if l.Algorithm == rule.SlidingWindow || l.Algorithm == rule.FixedWindow {
			l.Anchor = rule.Anchor(rapid.IntRange(0, 1).Draw(t, "anchor"))
		}
		s := &subject{key: fmt.Sprintf("key-%d", i)}
		for range 2 {
			limit := limitOf(drawQuota(t, l))
			limit.Name = fmt.Sprint(i)
			s.limits = append(s.limits, bind(tb, namespace, limit))
		}
		g.subjects = append(g.subjects, s)
	}
	w.now = drawOrigin(t, window)
	return g
}

// moment moves the clock and asks a few things.
func (g *game) moment() {
	about := rapid.SampledFrom(g.subjects).Draw(g.t, "about")
	g.twin.now = g.drawMoment(about)
	for range rapid.IntRange(1, 8).Draw(g.t, "requests") {
		op, charges, subjects := g.drawRequest()
		for i, a := range g.twin.ask(op, g.group, charges...) {
			subjects[i].last = a
		}
	}
	if err := g.twin.compare(); err != nil {
		g.t.Fatal(err)
	}
}

func (g *game) drawRequest() (op slidegate.Op, charges []slidegate.Charge, subjects []*subject) {
	op = rapid.SampledFrom([]slidegate.Op{
		slidegate.OpTake, slidegate.OpTake, slidegate.OpTake, slidegate.OpTake, slidegate.OpTake, slidegate.OpTakeUpTo,
		slidegate.OpTakeUpTo, slidegate.OpPeek, slidegate.OpCharge, slidegate.OpGiveBack, slidegate.OpGiveBack, slidegate.OpReset,
	}).Draw(g.t, "op")
	if op == slidegate.OpReset && rapid.IntRange(0, 2).Draw(g.t, "really") > 0 {
		op = slidegate.OpTake // else most states would be young
	}
	subjects = rapid.Permutation(g.subjects).Draw(g.t, "subjects")
	if rapid.IntRange(0, 2).Draw(g.t, "several") > 0 {
		subjects = subjects[:1]
	}
	for _, s := range subjects {
		limit := s.limits[0]
		if rapid.IntRange(0, 7).Draw(g.t, "other limit") == 0 {
			limit = s.limits[1]
		}
		v := limit.Rule().Look(g.twin.state(limit, g.group, s.key), g.twin.now)
		charges = append(charges, slidegate.Charge{
			Limit: limit, Key: s.key, Cost: g.drawCost(limit.Rule(), v.Room), At: g.drawBack(op, limit, s),
		})
	}
	return op, charges, subjects
}

func (g *game) drawBack(op slidegate.Op, limit *slidegate.BoundLimit, s *subject) slidegate.Micros {
	if op != slidegate.OpGiveBack {
		return 0
	}
	switch rapid.IntRange(0, 3).Draw(g.t, "back") {
	case 0:
		return rule.Oldest
	case 1:
		return s.last.At
	case 2:
		return ownTime(limit.Rule(), g.twin.state(limit, g.group, s.key), g.twin.now)
	default:
		return min(max(g.twin.now-spread(g.t, "ago", -1, 3*limit.Rule().Window), 1), rule.MaxNow)
	}
}

// drawMoment returns when to ask: the same moment, a little or a lot later or earlier, or one at which something changes,
// or beside it.
func (g *game) drawMoment(s *subject) slidegate.Micros {
	l, now := s.limits[0].Rule(), g.twin.now
	own := ownTime(l, g.twin.state(s.limits[0], g.group, s.key), now)
	part := l.Window / int64(max(1, l.Segments))
	beside := rapid.Int64Range(-1, 1).Draw(g.t, "beside")
	switch rapid.IntRange(0, 9).Draw(g.t, "step") {
	case 0:
	case 1:
		now += beside
	case 2:
		now += spread(g.t, "within a part", 0, part)
	case 3, 4:
		now = own + part*rapid.Int64Range(0, int64(l.Parts())+1).Draw(g.t, "parts") + beside
	case 5:
		if s.last.RetryAfter != rule.Never {
			now += s.last.RetryAfter + beside
		}
	case 6:
		now += s.last.ResetAfter + beside
	case 7:
		now += spread(g.t, "within a window", -l.Window, l.Window)
	case 8:
		now = own - l.Window + beside // where the state begins to be a window ahead
	default:
		now += spread(g.t, "jump", -4*l.Window, 4*l.Window)
	}
	return min(max(now, 0), rule.MaxNow)
}

// ownTime is the time that a state remembers, if it does.
func ownTime(l *rule.Limit, s *rule.State, now slidegate.Micros) slidegate.Micros {
	switch {
	case l.Algorithm == rule.SlidingLog && s.Log.Len() > 0:
		times := s.Log.Times()
		return times[len(times)-1]
	case l.Algorithm == rule.TokenBucket && s.Start > 0, l.Parts() > 0 && len(s.Counts) > 0 && s.Start != rule.Absent:
		return s.Start
	}
	return now
}

func (g *game) drawCost(l *rule.Limit, room int64) int64 {
	var cost int64
	switch rapid.IntRange(0, 5).Draw(g.t, "cost kind") {
	case 0:
		cost = 1
	case 1:
		cost = room + rapid.Int64Range(-1, 1).Draw(g.t, "beside room")
	case 2:
		cost = l.Capacity() + rapid.Int64Range(-1, 1).Draw(g.t, "beside capacity")
	case 3:
		cost = rapid.Int64Range(0, 5).Draw(g.t, "small")
	case 4:
		cost = draw(g.t, "cost", 0, rule.MaxQuota)
	default:
		cost = spread(g.t, "part of it", 0, l.Capacity())
	}
	return min(max(cost, 0), rule.MaxQuota)
}

// drawQuota gives a shape a quota, and all that may differ within a shape.
func drawQuota(t *rapid.T, l rule.Limit) rule.Limit {
	most := int64(rule.MaxQuota)
	l.CountDenied = rapid.Bool().Draw(t, "count denied")
	switch l.Algorithm {
	case rule.SlidingWindow:
		l.Overlap = rule.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
	case rule.SlidingLog:
		most = 40 // large ones now and then
		if large := rapid.IntRange(0, 29).Draw(t, "large log"); large == 29 {
			most = rule.MaxLogQuota
		} else if large > 24 {
			most = 300
		}
	}
	l.Quota = draw(t, "quota", 1, most)
	if l.Algorithm == rule.TokenBucket {
		fills := new(big.Int).Mul(big.NewInt(l.Quota), big.NewInt(rule.MaxWindow))
		most = rule.MaxQuota
		if fills.Quo(fills, big.NewInt(l.Window)); fills.Cmp(big.NewInt(most)) < 0 {
			most = fills.Int64()
		}
		l.Burst = draw(t, "burst", 1, most)
	}
	return l
}

func limitOf(l rule.Limit) slidegate.Limit {
	return slidegate.Limit{
		Algorithm: l.Algorithm, Overlap: l.Overlap, Anchor: l.Anchor, CountDenied: l.CountDenied, Segments: l.Segments,
		Quota: l.Quota, Burst: l.Burst, Window: time.Duration(l.Window) * time.Microsecond,
	}
}

// drawWindow returns a length that divides by a number, often one as people choose them.
func drawWindow(t *rapid.T, n int64) slidegate.Micros {
	least, most := (rule.MinWindow+n-1)/n, rule.MaxWindow/n
	if rapid.Bool().Draw(t, "round window") {
		return n * min(max(rapid.SampledFrom([]int64{1e3, 1e6, 60e6, 3600e6, 86400e6}).Draw(t, "window"), least), most)
	}
	return n * draw(t, "window", least, most)
}

func drawOrigin(t *rapid.T, window slidegate.Micros) slidegate.Micros {
	switch rapid.IntRange(0, 2).Draw(t, "origin") {
	case 0:
		return spread(t, "near the epoch", 0, 2*window)
	case 1:
		return rule.MaxNow - spread(t, "near the end", 0, 2*window)
	default:
		return 1_767_000_000e6 + spread(t, "now", 0, window)
	}
}

// draw returns a number from least to most. Small ones, those near the ends and those near powers of two are common.
func draw(t *rapid.T, label string, least, most int64) int64 {
	switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
	case 0:
		return least + rapid.Int64Range(0, min(10, most-least)).Draw(t, label)
	case 1:
		return most - rapid.Int64Range(0, min(3, most-least)).Draw(t, label)
	case 2:
		power := int64(1) << rapid.IntRange(0, 53).Draw(t, label)
		return min(max(power+rapid.Int64Range(-1, 1).Draw(t, label+" beside"), least), most)
	default:
		return spread(t, label, least, most)
	}
}

// spread returns a number from least to most, all over that range: rapid's own are mostly small ones.
func spread(t *rapid.T, label string, least, most int64) int64 {
	n := int64(rapid.Uint64().Draw(t, label) * 0x9E3779B97F4A7C15 >> 1)
	return least + n%(most-least+1)
}

// oneOf returns one of the numbers.
func oneOf(t *rapid.T, label string, numbers ...int) int {
	return rapid.SampledFrom(numbers).Draw(t, label)
}
