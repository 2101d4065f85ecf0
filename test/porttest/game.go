package porttest

import (
	"fmt"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"pgregory.net/rapid"
)

// Game is one run of random questions about a few keys, with windows of much the same length, so that what is a moment of
// interest to one often is to others.
type Game struct {
	T        *rapid.T
	Subjects []*Subject
	twin     *Twin
	group    string
}

// Subject is a key with two limits of one shape, which share its state.
type Subject struct {
	Limits []*store.Limit
	key    string
	last   rule.Answer
}

func newGame(t *rapid.T, tb testing.TB, w *Twin, namespace string, opts Options) *Game {
	g := &Game{T: t, twin: w, group: rapid.SampledFrom([]string{"", "group"}).Draw(t, "group")}
	segments := rapid.IntRange(1, rule.MaxSegments).Draw(t, "segments")
	window := drawWindow(t, rule.Micros(segments))
	for i := range rapid.IntRange(1, 6).Draw(t, "keys") {
		shape := drawShape(t, window, segments, opts.Algorithms)
		s := &Subject{key: fmt.Sprintf("key-%d", i)}
		if opts.OneKey && g.group == "" && i > 0 {
			s.key = g.Subjects[0].key
		}
		for range 2 {
			limit := limitOf(drawQuota(t, w.store, shape))
			limit.Name = fmt.Sprint(i)
			s.Limits = append(s.Limits, Bind(tb, namespace, limit))
		}
		g.Subjects = append(g.Subjects, s)
	}
	w.Now = drawOrigin(t, window)
	return g
}

// Moment moves the clock and asks a few things.
func (g *Game) Moment() {
	g.Move(rapid.SampledFrom(g.Subjects).Draw(g.T, "about"))
	for range rapid.IntRange(1, 8).Draw(g.T, "requests") {
		op, charges, subjects := g.drawRequest()
		for i, a := range g.twin.Ask(op, g.group, charges...) {
			subjects[i].last = a
		}
	}
	g.Compare()
}

// Move moves the clock, often to where something changes for a subject.
func (g *Game) Move(about *Subject) { g.twin.Now = g.drawMoment(about) }

// Room returns how many units a limit of a subject has left now.
func (g *Game) Room(s *Subject, limit *store.Limit) int64 {
	return limit.Rule().Look(g.twin.state(limit, g.group, s.key), g.twin.Now).Room
}

// Take asks for units of one limit of a subject.
func (g *Game) Take(s *Subject, limit *store.Limit, cost int64) {
	s.last = g.twin.Ask(rule.Take, g.group, store.Charge{Limit: limit, Key: s.key, Cost: cost})[0]
}

// Compare ends a moment: the store is asked what the rule was, and must have answered the same.
func (g *Game) Compare() {
	if err := g.twin.Compare(); err != nil {
		g.T.Fatal(err)
	}
}

// drawRequest draws what to ask, of one subject or of all.
func (g *Game) drawRequest() (op rule.Op, charges []store.Charge, subjects []*Subject) {
	op = rapid.SampledFrom([]rule.Op{
		rule.Take, rule.Take, rule.Take, rule.Take, rule.Take, rule.TakeUpTo,
		rule.TakeUpTo, rule.Peek, rule.Charge, rule.GiveBack, rule.GiveBack, rule.Reset,
	}).Draw(g.T, "op")
	if op == rule.Reset && rapid.IntRange(0, 2).Draw(g.T, "really") > 0 {
		op = rule.Take // else most states would be young
	}
	subjects = rapid.Permutation(g.Subjects).Draw(g.T, "subjects")
	if rapid.IntRange(0, 2).Draw(g.T, "several") > 0 {
		subjects = subjects[:1]
	}
	for _, s := range subjects {
		limit := s.Limits[0]
		if rapid.IntRange(0, 7).Draw(g.T, "other limit") == 0 {
			limit = s.Limits[1]
		}
		cost := g.DrawCost(limit, g.Room(s, limit))
		charges = append(charges, store.Charge{Limit: limit, Key: s.key, Cost: cost, At: g.drawBack(op, limit, s)})
	}
	return op, charges, subjects
}

// drawBack draws the time of what is given back.
func (g *Game) drawBack(op rule.Op, limit *store.Limit, s *Subject) rule.Micros {
	if op != rule.GiveBack {
		return 0
	}
	switch rapid.IntRange(0, 3).Draw(g.T, "back") {
	case 0:
		return rule.Oldest
	case 1:
		return s.last.At
	case 2:
		return ownTime(limit.Rule(), g.twin.state(limit, g.group, s.key), g.twin.Now)
	default:
		return min(max(g.twin.Now-spread(g.T, "ago", -1, 3*limit.Rule().Window), 1), rule.MaxNow)
	}
}

// drawMoment returns when to ask: the same moment, a little or a lot later or earlier, or one at which something changes,
// or beside it.
func (g *Game) drawMoment(s *Subject) rule.Micros {
	l, now := s.Limits[0].Rule(), g.twin.Now
	own := ownTime(l, g.twin.state(s.Limits[0], g.group, s.key), now)
	part := l.Window / rule.Micros(max(1, l.Segments))
	beside := rule.Micros(rapid.Int64Range(-1, 1).Draw(g.T, "beside"))
	switch rapid.IntRange(0, 9).Draw(g.T, "step") {
	case 0:
	case 1:
		now += beside
	case 2:
		now += spread(g.T, "within a part", 0, part)
	case 3, 4:
		now = own + part*rule.Micros(rapid.Int64Range(0, int64(l.Parts())+1).Draw(g.T, "parts")) + beside
	case 5:
		if s.last.RetryAfter != rule.Never {
			now += s.last.RetryAfter + beside
		}
	case 6:
		now += s.last.ResetAfter + beside
	case 7:
		now += spread(g.T, "within a window", -l.Window, l.Window)
	case 8:
		now = own - l.Window + beside // where the state begins to be a window ahead
	default:
		now += spread(g.T, "jump", -4*l.Window, 4*l.Window)
	}
	return min(max(now, 0), rule.MaxNow)
}

// ownTime is the time that a state remembers, if it does.
func ownTime(l *rule.Limit, s *rule.State, now rule.Micros) rule.Micros {
	switch {
	case l.Algorithm == rule.SlidingLog && s.Log.Len() > 0:
		times := s.Log.Times()
		return times[len(times)-1]
	case l.Algorithm == rule.TokenBucket && s.Start > 0, l.Parts() > 0 && len(s.Counts) > 0 && s.Start != rule.Absent:
		return s.Start
	}
	return now
}

// DrawCost draws what to ask for where room units are left: often just as many, or one more or less.
func (g *Game) DrawCost(limit *store.Limit, room int64) (cost int64) {
	l := limit.Rule()
	switch rapid.IntRange(0, 5).Draw(g.T, "cost kind") {
	case 0:
		cost = 1
	case 1:
		cost = room + rapid.Int64Range(-1, 1).Draw(g.T, "beside room")
	case 2:
		cost = l.Capacity() + rapid.Int64Range(-1, 1).Draw(g.T, "beside capacity")
	case 3:
		cost = rapid.Int64Range(0, 5).Draw(g.T, "small")
	case 4:
		cost = draw(g.T, "cost", 0, int64(rule.MaxQuota))
	default:
		cost = spread(g.T, "part of it", 0, l.Capacity())
	}
	return min(max(cost, 0), rule.MaxQuota)
}
