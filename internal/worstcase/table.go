package worstcase

import (
	"fmt"
	"strings"

	"github.com/slidegate/slidegate/rule"
)

// Row is what was found for one case.
type Row struct {
	Case
	Most     []Finding // the most units in a window, for each of the case's limits
	Shortest []Finding // the shortest stretch over the quota, for each of the case's limits
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

// Table writes what was found as a table in Markdown.
func Table(rows []Row) string {
	var b strings.Builder
	quota := rows[0].Limits[0].Quota
	fmt.Fprintf(&b, "| limit | most in any window W, quota %d | of the quota | shortest stretch over the quota "+
		"| state of a key | when to choose it |\n|---|---|---|---|---|---|\n", quota)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %s | %s |\n",
			r.Name, r.most(), float64(r.Most[0].Most)/float64(quota), r.shortest(), memory(r.Limits[0]), r.When)
	}
	return b.String()
}

// most tells the two anchors apart where it makes a difference.
func (r *Row) most() string {
	text := fmt.Sprint(r.Most[0].Most)
	if len(r.Most) > 1 && r.Most[1].Most != r.Most[0].Most {
		text += fmt.Sprintf(" (anchor `first`: %d)", r.Most[1].Most)
	}
	return text
}

// shortest is the shorter one of the two anchors.
func (r *Row) shortest() string {
	length := r.Shortest[0].Shortest
	for _, f := range r.Shortest {
		if f.Shortest > 0 && f.Shortest < length || length == 0 {
			length = f.Shortest
		}
	}
	switch {
	case length == 0:
		return "none"
	case length > Window:
		return fmt.Sprintf("none within W (W + %d µs)", length-Window)
	case length < Window/1000:
		return fmt.Sprintf("%d µs", length)
	default:
		return fmt.Sprintf("%.4f W", float64(length)/float64(Window))
	}
}

// memory is the size of a key's state as rule.State has it in use, without what a store adds for the address.
func memory(l rule.Limit) string {
	switch l.Algorithm {
	case rule.SlidingLog:
		return "16 bytes, and up to 8 a unit"
	case rule.TokenBucket:
		return "16 bytes"
	default:
		return fmt.Sprintf("%d bytes", 8+8*l.Parts())
	}
}
