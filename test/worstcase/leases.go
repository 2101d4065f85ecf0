package worstcase

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/internal/leases"
	"github.com/slidegate/slidegate/rule"
)

// Life returns the end of the time during which units charged together at at may be spent. Any number of processes may hold
// units concurrently. It makes no difference which process holds them: a process knows only its own units.
type Life func(l *rule.Limit, at rule.Micros) (end rule.Micros)

// WithinPart is the life of a lease in internal/layer/lease: the part of the window in which it was charged, or leases.Life for a
// token bucket.
func WithinPart(l *rule.Limit, at rule.Micros) rule.Micros {
	if l.Algorithm == rule.TokenBucket {
		return at + leases.Life
	}
	_, end := leases.Part(l, at)
	return end
}

// Naive is the usual life of leases: a fixed time, wherever it begins.
func Naive(length rule.Micros) Life {
	return func(_ *rule.Limit, at rule.Micros) rule.Micros { return at + length }
}

// SearchLeased is Search for processes that lease units and spend them later. It maximizes what is spent, not what is
// charged.
func SearchLeased(l rule.Limit, life Life, g Goal, e Effort) Finding {
	p := newPlayer(l)
	p.life = life
	return p.search(g, e)
}

// heldUnits are units that a process holds and will give back.
type heldUnits struct {
	when  rule.Micros // since the schedule began
	at    rule.Micros // time of the charge
	units int64
}

// hold records what is to be spent of a lease, and what is to be given back. It is an admission when it is spent.
func (p *player) hold(lease rule.Answer) {
	last := p.life(&p.limit, lease.At) - 1
	when := max(lease.At, min(lease.At+p.step.Hold, last)) - epoch
	back := min(p.step.Returned, lease.Granted)
	if back > 0 {
		p.unsent = append(p.unsent, heldUnits{when: when, at: lease.At, units: back})
	}
	if units := lease.Granted - back; units > 0 {
		p.admissions = append(p.admissions, Admission{At: when, Units: units})
	}
}

// sendBack gives back what is due by now.
func (p *player) sendBack(now rule.Micros) {
	p.unsent = slices.DeleteFunc(p.unsent, func(u heldUnits) bool {
		if u.when > now {
			return false
		}
		p.items[0] = rule.Item{Limit: &p.limit, State: &p.state, Cost: u.units, At: u.at}
		rule.Decide(rule.GiveBack, p.items[:], epoch+u.when, p.answers[:])
		return true
	})
}

// holding returns the schedules with leases: held as long as possible, by all steps or by all but the last.
func holding(all []Schedule, window rule.Micros) (held []Schedule) {
	for _, s := range all {
		for _, n := range []int{len(s), len(s) - 1} {
			s = slices.Clone(s)
			for i := range s[:n] {
				s[i].Hold = window
			}
			held = append(held, s)
		}
	}
	return held
}

// changeHold changes at random how long a step holds its units, or how many of them it gives back.
func (c *climber) changeHold(s Schedule, step *Step) {
	switch c.rand.IntN(5) {
	case 0:
		step.Hold = 0
	case 1:
		step.Hold = c.limit.Window // as long as possible
	case 2:
		step.Hold = c.randomLength()
	case 3:
		step.Hold = max(0, c.landmark(s, step.At)-step.At)
	default:
		step.Returned = 0
		if c.rand.IntN(2) == 0 {
			step.Returned = c.randomCost()
		}
	}
}

// LeasedRow is the result for one case with leases, next to the result without.
type LeasedRow struct {
	Row
	Limit    rule.Limit // anchored at the clock, as charged: a token bucket's burst is lowered
	Leasable bool
	Leased   Finding // the most units in a window, with leases that end with their part
	Over     Finding // the shortest interval over the quota, with leases that end with their part
	Naive    Finding // the most units in a window, with leases that do not
}

// naiveLife is the life of the leases that the table shows as a warning: no longer than a part of a window with 60
// segments.
const naiveLife = Window / 60

// FindLeased searches for the worst case of every limit with leases.
func FindLeased(rows []Row, e Effort) []LeasedRow {
	leases := make([]LeasedRow, len(rows))
	for i, row := range rows {
		plain := row.Limits[0]
		r := LeasedRow{Row: row, Limit: plain, Leasable: plain.Algorithm != rule.SlidingLog}
		r.Naive = SearchLeased(plain, Naive(naiveLife), MostIn(Window), e)
		if r.Leasable {
			r.Limit = leased(plain)
			r.Leased = SearchLeased(r.Limit, WithinPart, MostIn(Window), e)
			r.Over = SearchLeased(r.Limit, WithinPart, Shortest(), e)
		}
		leases[i] = r
	}
	return leases
}

// leased returns l as slidegate compiles it with Lease set.
func leased(l rule.Limit) rule.Limit {
	l.Lease = true
	if l.Algorithm == rule.TokenBucket {
		l.Burst -= leases.Reserve(&l)
	}
	return normalize(l)
}

// LeasedTable returns the results as a table in Markdown.
func LeasedTable(rows []LeasedRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| limit | most in any window W, quota %d | if leases lived for W/60 instead "+
		"| shortest interval over the quota |\n|---|---|---|---|\n", rows[0].Limit.Quota)
	for _, r := range rows {
		most, over := "cannot be leased", "–"
		if r.Leasable {
			most, over = fmt.Sprint(r.Leased.Most), interval(r.Over.Shortest)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", r.Name, most, r.Naive.Most, over)
	}
	return b.String()
}
