package worstcase

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// Action is one action of an adversary that also gives units back.
type Action struct {
	At    rule.Micros
	Op    rule.Op // Take, TakeUpTo, Charge or GiveBack
	Units int64
	// From is the index, among the admissions so far, of the one to give back from, as Settle and Cancel do, modulo their
	// number. If it is negative, the oldest units are given back, as Refund does.
	From int
}

// GiveBackRules are what an adversary that gives units back may do. The zero value allows only correct use as documented:
// every admission is settled at most once, for at most what was admitted, and nothing is charged with Charge.
type GiveBackRules struct {
	SettleTwice bool // an admission may be given back any number of times, although it was undone only once
	Overdraw    bool // Settle may charge more than was admitted, even beyond the quota
	Forget      bool // units charged without a check are not recorded, so that the ledger contains admissions only
	NoRefund    bool // units return only to where they were taken, by Settle and Cancel
	Refilled    bool // a planted fault: units that a bucket has refilled since are given back as well
}

// entry is one admission and what is left of it.
type entry struct {
	at      rule.Micros
	units   int64 // what was admitted
	left    int64 // what was not given back
	settled bool
}

// ledger is the adversary's own record of one key: not what the limiter remembers, but what was really admitted and really
// undone.
type ledger struct {
	player
	rules   GiveBackRules
	entries []entry
	most    int64 // the most units outstanding in a window, right after an admission
}

// run plays the deeds, which are in order of time, and returns the most units that were outstanding in any window that ends
// with an admission: admitted or charged in it, and not given back by its end.
func (g *ledger) run(deeds []Action) int64 {
	g.state = rule.State{}
	g.entries, g.most = g.entries[:0], 0
	for _, d := range deeds {
		switch {
		case d.Op == rule.GiveBack:
			g.giveBack(d)
		case d.Op != rule.Charge:
			if a := g.do(d.Op, d.At, d.Units); a.Allowed {
				g.record(a)
				g.most = max(g.most, g.outstanding(a.At-epoch))
			}
		case g.rules.Overdraw:
			// A Charge is not an admission: it only affects what is admitted after it.
			if a := g.do(d.Op, d.At, d.Units); !g.rules.Forget {
				g.record(a)
			}
		}
	}
	return g.most
}

func (g *ledger) record(a rule.Answer) {
	g.entries = append(g.entries, entry{at: a.At - epoch, units: a.Granted, left: a.Granted})
}

// outstanding returns the units in the window that ends at now.
func (g *ledger) outstanding(now rule.Micros) int64 {
	var sum int64
	for _, e := range g.entries {
		if e.at > now-Window && e.at <= now {
			sum += e.left
		}
	}
	return sum
}

// giveBack gives back from one admission, or the oldest units.
func (g *ledger) giveBack(d Action) {
	if len(g.entries) == 0 {
		return
	}
	if d.From < 0 && g.rules.NoRefund {
		return
	}
	if d.From < 0 {
		g.undo(g.giveBackAt(d, rule.Oldest))
		return
	}
	e := &g.entries[d.From%len(g.entries)]
	again := e.settled
	if again && !g.rules.SettleTwice {
		return
	}
	e.settled = true
	d.Units = min(d.Units, e.units)
	at := epoch + e.at
	if g.rules.Refilled {
		at = rule.Oldest
	}
	given := g.giveBackAt(d, at)
	if again {
		return // the limiter gave units back, but nothing was undone
	}
	own := min(given, e.left)
	e.left -= own
	// An earlier Refund may have taken units from this entry that were meant for others: these are undone now.
	g.undo(given - own)
}

func (g *ledger) giveBackAt(d Action, at rule.Micros) int64 {
	g.items[0] = rule.Item{Limit: &g.limit, State: &g.state, Cost: d.Units, At: at}
	rule.Decide(rule.GiveBack, g.items[:], epoch+d.At, g.answers[:])
	return g.answers[0].Granted
}

// undo takes units off the oldest entries that the limiter still counts, as a Refund does.
func (g *ledger) undo(units int64) {
	if units == 0 {
		return
	}
	reach := g.answers[0].At - epoch - Window + 1
	if segments := rule.Micros(g.limit.Segments); segments > 0 && g.state.InParts() { // giving back rolled the state, which counts from there
		reach = g.state.Start - epoch - segments*(Window/segments)
	}
	for i := range g.entries {
		if e := &g.entries[i]; e.at >= reach {
			taken := min(units, e.left)
			e.left -= taken
			units -= taken
		}
	}
}

// SearchGiveBack looks for deeds after which an admission leaves as many units as possible outstanding in the window before
// it, and returns that number and the deeds. It is for limits with a promise to break: sliding windows, logs and buckets.
func SearchGiveBack(l rule.Limit, rules GiveBackRules, e Effort) (int64, []Action) {
	r := rand.New(rand.NewPCG(e.Seed, 0x6e7bac4))
	c := &giveBackClimber{
		ledger: ledger{player: player{limit: l}, rules: rules}, rand: r,
		times: climber{player: newPlayer(l), rand: r, part: l.Window / max(1, rule.Micros(l.Segments)), capacity: l.Capacity()},
	}
	var most int64
	var best []Action
	for range e.Restarts {
		deeds := make([]Action, 0, maxDeeds+1)
		for range 2 + r.IntN(maxDeeds-2) {
			deeds = append(deeds, c.random())
		}
		if n := c.climb(&deeds, e.Climb); n > most {
			most, best = n, deeds
		}
	}
	return most, best
}

// maxDeeds leaves space for a few admissions, for giving each of them back, and for taking again.
const maxDeeds = 10

type giveBackClimber struct {
	ledger
	rand  *rand.Rand
	times climber // only for its random choices
}

func (c *giveBackClimber) climb(deeds *[]Action, n int) int64 {
	best := sortDeeds(*deeds)
	most := c.run(best)
	next := make([]Action, 0, maxDeeds+1)
	for range n {
		next = append(next[:0], best...)
		for again := true; again; again = c.rand.IntN(2) == 0 {
			next = c.change(next)
		}
		if score := c.run(sortDeeds(next)); score >= most {
			best, next, most = next, best, score
		}
	}
	*deeds = best
	return most
}

func (c *giveBackClimber) random() Action {
	ops := []rule.Op{rule.Take, rule.TakeUpTo, rule.TakeUpTo, rule.GiveBack, rule.GiveBack, rule.Charge}
	return Action{
		At: rule.Micros(c.rand.Int64N(int64(c.span()))), Op: ops[c.rand.IntN(len(ops))],
		Units: c.times.randomCost(), From: c.rand.IntN(maxDeeds+3) - 3,
	}
}

func (c *giveBackClimber) change(s []Action) []Action {
	i := c.rand.IntN(len(s))
	switch n := c.rand.IntN(8); {
	case n == 0:
		s[i].At += c.times.randomLength() * c.times.sign()
	case n < 4: // deeds use the landmarks of schedules: for times, a deed is a step
		other := s[c.rand.IntN(len(s))].At
		s[i].At = c.times.landmark(Schedule{{At: other}}, s[i].At)
	case n == 4:
		s[i].Units = c.times.randomCost()
	case n == 5:
		at := s[i].At
		s[i] = c.random()
		s[i].At = at
	case n == 6 && len(s) < maxDeeds:
		s = append(s, c.random())
	case n == 7 && len(s) > 2:
		s = slices.Delete(s, i, i+1)
	}
	return s
}

func sortDeeds(s []Action) []Action {
	for i := range s {
		s[i].At = min(max(s[i].At, 0), 4*Window)
	}
	slices.SortStableFunc(s, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
	return s
}
