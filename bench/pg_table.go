package main

import (
	"fmt"
	"strings"
)

// pgTable makes the table of one load, and checks that the limiters decided as intended.
func (r *run) pgTable(rows []pgRow, load pgLoad, durable bool, samples map[pgCell]remoteSamples) *table {
	t := &table{
		title: fmt.Sprintf("PostgreSQL: %s, %s", load.name, durability(durable)),
		columns: []string{"limiter", "algorithm", "callers", "decisions/s", "to transaction", "to UPDATE", "p50 µs", "p99 µs",
			"server CPU µs", "own CPU µs", "allocs", "spread", "goal"},
		names: 2,
	}
	for _, callers := range r.pgCallers() {
		of := func(row string) remoteSamples { return samples[pgCell{row, load.name, durable, callers}] }
		for i := range rows {
			row := &rows[i]
			got := of(row.name)
			if row.name != rowUpdateAlone && got.share() != load.share {
				r.fail("PostgreSQL, %s: %s: %.4f of the requests were admitted, want %g", load.name, row.name, got.share(), load.share)
			}
			toTransaction, toUpdate := got.ratioTo(of(rowTransaction)), got.ratioTo(of(rowUpdateAlone))
			t.add(row.name, row.algorithm, fmt.Sprint(callers), fmt.Sprintf("%.0f", got.median(rateOf)), times(toTransaction), times(toUpdate),
				fmt.Sprintf("%.0f", got.median(p50Micros)), fmt.Sprintf("%.0f", got.median(p99Micros)),
				fmt.Sprintf("%.0f", got.median(serverMicros)), fmt.Sprintf("%.1f", got.median(ownMicros)), allocations(got.median(allocs)),
				fmt.Sprintf("±%.0f%%", 50*got.spread()), row.goalResult(load, callers, toTransaction, toUpdate))
		}
	}
	t.note("Medians of %d interleaved rounds of %v. Ratios are of decisions a second with as many callers, medians of the ratios "+
		"within each round; more is better. CPU and allocations are per decision, in the server and in this program.", r.pgRounds(), r.pgTime())
	return t
}

// ratioTo returns the ratio of the rates of s to those of others: the median of the ratios within each round, in which the rows are
// timed right after one another. It is 0 if others is empty.
func (s remoteSamples) ratioTo(others remoteSamples) float64 {
	var ratios []float64
	for i := range min(len(s), len(others)) {
		ratios = append(ratios, s[i].perSecond/max(others[i].perSecond, 1e-9))
	}
	if len(ratios) == 0 {
		return 0
	}
	return median(ratios)
}

func times(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", ratio)
}

// goalResult returns the goals for a load and a number of callers, and whether a row reaches them by its ratios to the transaction and
// to UPDATE, which are 0 if -only left those out.
func (row *pgRow) goalResult(load pgLoad, callers int, toTransaction, toUpdate float64) string {
	if row.family != own || load.share == 0 {
		return ""
	}
	var texts []string
	goal := func(text string, factor, ratio float64) {
		switch {
		case ratio == 0:
		case ratio >= factor:
			texts = append(texts, fmt.Sprintf("%gx %s: met", factor, text))
		default:
			texts = append(texts, fmt.Sprintf("%gx %s: missed", factor, text))
		}
	}
	switch {
	case callers == 1:
		goal("transaction", 1.5, toTransaction)
	case callers == 64 && row.name == alone: // it is for few callers
	case callers == 64 && load.hot:
		goal("transaction", 30, toTransaction)
		goal("UPDATE", 10, toUpdate)
	case callers == 64:
		goal("transaction", 3.5, toTransaction)
	}
	return strings.Join(texts, ", ")
}
