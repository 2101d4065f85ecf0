package worstcase

import (
	"fmt"
	"strings"

	"github.com/slidegate/slidegate/rule"
)

// Row is the result for one case.
type Row struct {
	Case
	Most     []Finding // the most units in a window, for each of the case's limits
	Shortest []Finding // the shortest interval over the quota, for each of the case's limits
}

// Find searches for the worst case of every limit.
func Find(cases []Case, e Effort) []Row {
	rows := make([]Row, len(cases))
	for i, c := range cases {
		rows[i].Case = c
		for _, l := range c.Limits {
			rows[i].Most = append(rows[i].Most, Search(l, MostIn(Window), e))
			rows[i].Shortest = append(rows[i].Shortest, Search(l, Shortest(), e))
		}
	}
	return rows
}

// Table returns the results as a table in Markdown.
func Table(rows []Row) string {
	var b strings.Builder
	quota := rows[0].Limits[0].Quota
	fmt.Fprintf(&b, "| limit | most in any window W, quota %d | shortest interval over the quota "+
		"| state of a key | when to choose it |\n|---|---|---|---|---|\n", quota)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", r.Name, r.Most[0].Most, r.shortest(), memory(r.Limits[0]), r.When)
	}
	b.WriteString(calendarRow(quota) + slotsRow(quota))
	return b.String()
}

// calendarRow is the row of calendar windows: a fixed window of varying length. It takes everything at the end of a month
// and again at the beginning of the next.
func calendarRow(quota int64) string {
	l, err := rule.Limit{Quota: quota, Calendar: rule.Month, Zone: "Europe/Berlin"}.Normalize()
	if err != nil {
		panic(err)
	}
	p := newPlayer(l)
	_, end := l.Bounds(epoch)
	for _, at := range []rule.Micros{end - 1, end} {
		p.do(rule.TakeUpTo, at-epoch, 2*quota)
	}
	most := MostWithin(p.admissions, end-epoch)
	return fmt.Sprintf("| `fixed-window` by calendar | %d | %d µs | %s | budgets per day, week, month or year |\n",
		most, ShortestOver(p.admissions, quota), memory(l))
}

// slotsRow is the row of in-flight limits, which promise how many slots are held at a time. It requests twice that many, at
// all times of a time to live.
func slotsRow(quota int64) string {
	l := normalize(rule.Limit{Algorithm: rule.InFlight, Quota: quota})
	p := newPlayer(l)
	for i := range 2 * quota {
		p.items[0] = rule.Item{Limit: &p.limit, State: &p.state, Cost: 1, ID: rule.ID(i + 1)}
		rule.Decide(rule.Take, p.items[:], epoch+rule.Micros(i)*(Window-1)/rule.Micros(2*quota), p.answers[:])
	}
	held := l.Used(&p.state, epoch+Window-1)
	return fmt.Sprintf("| `in-flight` | %d at a time; any number in a window | – | %s | to limit what runs concurrently |\n", held, memory(l))
}

// shortest is the shorter one of the two anchors.
func (r *Row) shortest() string {
	length := r.Shortest[0].Shortest
	for _, f := range r.Shortest {
		if f.Shortest > 0 && f.Shortest < length || length == 0 {
			length = f.Shortest
		}
	}
	return interval(length)
}

// interval formats the length of the shortest interval over the quota.
func interval(length rule.Micros) string {
	switch {
	case length == 0:
		return "none"
	case length > Window:
		return fmt.Sprintf("W + %d µs", length-Window)
	case length < Window/1000:
		return fmt.Sprintf("%d µs", length)
	default:
		return fmt.Sprintf("%.4f W", float64(length)/float64(Window))
	}
}

// memory is the size of a key's state as rule.State uses it, without what a store adds for the address.
func memory(l rule.Limit) string {
	switch l.Algorithm {
	case rule.DefaultAlgorithm:
		return fmt.Sprintf("as a log, or %d bytes", 8+8*l.Parts())
	case rule.SlidingLog:
		return "16 bytes, and up to 8 per unit"
	case rule.TokenBucket:
		return "32 bytes"
	case rule.InFlight:
		return "16 bytes per slot"
	default:
		return fmt.Sprintf("%d bytes", 8+8*l.Parts())
	}
}
