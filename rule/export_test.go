package rule

import "pgregory.net/rapid"

// Random limits, states and costs, for the tests of packages that repeat the rule.
var (
	Property     = property
	EveryChoice  = everyChoice
	NameOfChoice = nameOfChoice
	Normal       = normal
	DrawLimit    = drawLimit
	DrawSize     = drawSize
	DrawQuota    = drawQuota
	DrawCounts   = drawCounts
	DrawNear     = drawNear
	DrawCost     = drawCost
	DrawID       = drawID
	DrawOrigin   = drawOrigin
	DrawMoment   = drawMoment
	CheckState   = checkState
	SameState    = sameState
	WriteMoved   = writeMoved
)

const (
	Milli  = milli
	Second = second
	Minute = minute
)

func Draw[N ~int64](t *rapid.T, label string, least, most N) N { return draw(t, label, least, most) }
func Spread[N ~int64](t *rapid.T, label string, least, most N) N {
	return spread(t, label, least, most)
}
func OneOf[N ~int64](t *rapid.T, label string, numbers ...N) N { return oneOf(t, label, numbers...) }
func Clamp[N ~int64](n, least, most N) N                       { return clamp(n, least, most) }

// Rolled returns where the current part of a window starts at now, the time that decides, by how many parts the counts lag
// behind, and whether the state is treated as if made now.
func (l *Limit) Rolled(s *State, now Micros) (start, at Micros, shift int, moved bool) {
	v := l.viewAt(s, now)
	return v.start, v.At, v.shift, v.Moved
}

// FreeAt returns when n units, which do not fit at now, fit.
func (l *Limit) FreeAt(s *State, now Micros, n int64) Micros {
	v := l.viewAt(s, now)
	return now + l.wait(s, &v, n)
}

// Admits reports whether s admits cost at now.
func (l *Limit) Admits(s *State, now Micros, cost int64) bool {
	v := l.viewAt(s, now)
	return l.admits(&v, cost)
}

// Refuse applies a refusal of cost at now to s, and reports whether that changed it.
func (l *Limit) Refuse(s *State, now Micros, cost int64) bool {
	v := l.viewAt(s, now)
	return l.refuse(s, &v, cost)
}

// Times returns the times of all units, the oldest first.
func (g *Log) Times() []Micros { return g.times() }
