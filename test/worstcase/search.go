package worstcase

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// Goal is what the adversary tries to achieve. The zero value is not usable; call MostIn or Shortest.
type Goal struct {
	length   rule.Micros // the interval to fill
	shortest bool        // find the shortest interval over the quota instead
}

// MostIn is the goal of being admitted as much as possible in some interval of the given length.
func MostIn(length rule.Micros) Goal { return Goal{length: length} }

// Shortest is the goal of being admitted more than the quota in the shortest possible interval.
func Shortest() Goal { return Goal{shortest: true} }

// score is how well the goal is reached, and how close it is to being reached better; more is better. Without the second
// field the search would be lost wherever many schedules are equally good, as they all are against a hard cap.
type score struct {
	reached int64 // units, or microseconds below zero
	near    int64
}

func (s score) compare(other score) int {
	return cmp.Or(cmp.Compare(s.reached, other.reached), cmp.Compare(s.near, other.near))
}

func (g Goal) score(admissions []Admission, quota int64, window rule.Micros) score {
	if g.shortest {
		return score{reached: int64(-shortestOrNone(admissions, quota)), near: MostWithin(admissions, 2*window)}
	}
	most := MostWithin(admissions, g.length)
	return score{reached: most, near: int64(-shortestOrNone(admissions, most))}
}

// noInterval is longer than any interval.
const noInterval = rule.Micros(math.MaxInt64)

func shortestOrNone(admissions []Admission, units int64) rule.Micros {
	if length := ShortestOver(admissions, units); length > 0 {
		return length
	}
	return noInterval
}

// Effort is how hard to search. The zero value does not search at all. The same effort finds the same results.
type Effort struct {
	Seed     uint64
	Restarts int  // how many random schedules to improve, in addition to the known strategies
	Climb    int  // how many changes to try on each
	Blind    bool // leaves out the known strategies, so that the search must find everything
}

// Finding is the best result of a search.
type Finding struct {
	Most     int64       // the most units in an interval, if that was the goal
	Shortest rule.Micros // the shortest interval over the quota, if that was the goal; 0 if there is none
	Schedule Schedule    // what the adversary does to get there
	Tries    int         // how many schedules were tried
}

// Search looks for the schedule that does best against l. It starts from known strategies and from random ones, and
// improves each by random changes that are kept unless they make it worse.
func Search(l rule.Limit, g Goal, e Effort) Finding { return newPlayer(l).search(g, e) }

func (p *player) search(g Goal, e Effort) Finding {
	l := &p.limit
	c := &climber{
		player: p, goal: g, rand: rand.New(rand.NewPCG(e.Seed, 0x51de6a7e)),
		part: l.Window / max(1, rule.Micros(l.Segments)), capacity: l.Capacity(),
	}
	var starts []Schedule
	if !e.Blind {
		starts = strategies(c.part, l.Window, l.Quota)
		if p.life != nil {
			starts = append(starts, holding(starts, l.Window)...)
		}
	}
	for range e.Restarts {
		starts = append(starts, c.random())
	}
	var best Schedule
	most := score{int64(-noInterval), int64(-noInterval)}
	for _, start := range starts {
		if s, score := c.climb(start, e.Climb); score.compare(most) > 0 {
			best, most = s, score
		}
	}
	f := Finding{Schedule: best, Tries: c.tries}
	switch {
	case !g.shortest:
		f.Most = most.reached
	case rule.Micros(most.reached) > -noInterval:
		f.Shortest = rule.Micros(-most.reached)
	}
	return f
}

// climber improves schedules. It reuses its memory for each of them.
type climber struct {
	*player
	goal     Goal
	rand     *rand.Rand
	part     rule.Micros
	capacity int64
	tries    int
}

// maxSteps keeps schedules short enough to be run often and to be understood.
const maxSteps = 8

func (c *climber) score(s Schedule) score {
	c.tries++
	return c.goal.score(c.play(s), c.limit.Quota, c.limit.Window)
}

// climb returns the best schedule that n random changes make from start. A change without effect is kept too, because the
// path to a better schedule often leads through many that are equally good, unless it only makes a slow schedule slower.
func (c *climber) climb(start Schedule, n int) (Schedule, score) {
	best := slices.Clone(start)
	most, requests := c.score(best), c.requests
	next := make(Schedule, 0, maxSteps+1)
	for range n {
		next = append(next[:0], best...)
		for again := true; again; again = c.rand.IntN(3) == 0 {
			next = c.change(next)
		}
		score := c.score(next)
		if better := score.compare(most); better > 0 || better == 0 && c.requests <= max(requests, maxSteps) {
			best, next = next, best
			most, requests = score, c.requests
		}
	}
	return best, most
}

// random returns a schedule of a few random steps.
func (c *climber) random() Schedule {
	s := make(Schedule, 0, maxSteps+1)
	for range 2 + c.rand.IntN(4) {
		s = append(s, c.randomStep())
	}
	return c.sortSteps(s)
}

func (c *climber) randomStep() Step {
	return Step{At: rule.Micros(c.rand.Int64N(int64(c.span()))), Cost: c.randomCost()}
}

// randomCost prefers amounts at which something happens: one unit, everything, all but a few.
func (c *climber) randomCost() int64 {
	switch c.rand.IntN(4) {
	case 0:
		return 1
	case 1:
		return 1 + c.rand.Int64N(c.capacity)
	case 2:
		return max(1, c.capacity-c.rand.Int64N(3))
	default:
		return c.capacity
	}
}

// randomLength is as likely to be a few microseconds as a few windows.
func (c *climber) randomLength() rule.Micros {
	return rule.Micros(math.Exp(c.rand.Float64() * math.Log(float64(2*c.limit.Window))))
}

// change makes one random change to s.
func (c *climber) change(s Schedule) Schedule {
	if len(s) == 0 {
		return append(s, c.randomStep())
	}
	i := c.rand.IntN(len(s))
	step := &s[i]
	if c.life != nil && c.rand.IntN(3) == 0 {
		c.changeHold(s, step)
		return s
	}
	if c.other != nil && c.rand.IntN(4) == 0 {
		step.Other = !step.Other
		return s
	}
	switch n := c.rand.IntN(16); {
	case n < 4:
		step.At += c.randomLength() * c.sign()
	case n < 8:
		step.At = c.landmark(s, step.At)
	case n < 10:
		step.Cost = c.randomCost()
	case n == 10:
		step.Cost = max(1, step.Cost+int64(c.sign()))
	case n == 11:
		step.Until = 0
		if c.rand.IntN(3) == 0 { // runs are slow to play, and rarely better than one request at the end
			step.Until = step.At + c.randomLength()
		}
	case n == 12:
		step.All = !step.All
	case n == 13:
		step.Late = 0
		if c.rand.IntN(2) == 0 {
			step.Late = min(c.randomLength(), c.limit.Window)
		}
	case n == 14 && len(s) < maxSteps:
		s = append(s, c.randomStep())
	case n == 15 && len(s) > 1:
		s = slices.Delete(s, i, i+1)
	}
	return c.sortSteps(s)
}

// landmark returns a time at which something happens, give or take a microsecond or two: where a part begins, or some
// parts, a window or nothing at all after another step.
func (c *climber) landmark(s Schedule, at rule.Micros) rule.Micros {
	other := s[c.rand.IntN(len(s))].At
	moment := other
	switch c.rand.IntN(4) {
	case 0:
		moment = at - at%c.part + c.part*rule.Micros(c.rand.Int64N(2))
	case 1:
		moment = other + c.limit.Window*c.sign()
	case 2:
		moment = other + c.part*rule.Micros(1+c.rand.Int64N(int64(c.limit.Window/c.part+1)))*c.sign()
	}
	return moment + rule.Micros(c.rand.Int64N(5)) - 2
}

func (c *climber) sign() rule.Micros { return rule.Micros(1 - 2*c.rand.Int64N(2)) }

// sortSteps sorts the steps and keeps them within span.
func (c *climber) sortSteps(s Schedule) Schedule {
	for i := range s {
		s[i].At = min(max(s[i].At, 0), c.span())
	}
	slices.SortStableFunc(s, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return s
}
