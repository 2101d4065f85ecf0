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
			if row.name != possibleInPG && got.share() != load.share {
				r.fail("PostgreSQL, %s: %s: %.4f of the requests were admitted, want %g", load.name, row.name, got.share(), load.share)
			}
			toPublished, toPossible := got.ratioTo(of(published)), got.ratioTo(of(possibleInPG))
			t.add(row.name, row.algorithm, fmt.Sprint(callers), fmt.Sprintf("%.0f", got.median(rateOf)), times(toPublished), times(toPossible),
				fmt.Sprintf("%.0f", got.median(halfMicros)), fmt.Sprintf("%.0f", got.median(mostMicros)),
				fmt.Sprintf("%.0f", got.median(serverMicros)), fmt.Sprintf("%.1f", got.median(ownMicros)), allocations(got.median(allocs)),
				fmt.Sprintf("±%.0f%%", 50*got.spread()), row.verdict(load, callers, toPublished, toPossible))
		}
	}
	t.note("Medians of %d interleaved rounds of %v. Ratios are of decisions a second with as many callers, medians of the ratios "+
		"within each round; more is better. CPU and allocations are a decision's, in the server and in this program.", r.pgRounds(), r.pgTime())
	return t
}

// ratioTo returns the ratio of these samples' rates to others': the median of the ratios within each round, in which the rows are
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

// verdict returns the goals for a load and a number of callers, and whether a row reaches them by its ratios to the transaction and
// to UPDATE, which are 0 if -only left those out.
func (row *pgRow) verdict(load pgLoad, callers int, toPublished, toPossible float64) string {
	if row.family != own || load.share == 0 {
		return ""
	}
	var texts []string
	goal := func(text string, least, ratio float64) {
		switch {
		case ratio == 0:
		case ratio >= least:
			texts = append(texts, fmt.Sprintf("%gx %s: met", least, text))
		default:
			texts = append(texts, fmt.Sprintf("%gx %s: missed", least, text))
		}
	}
	switch {
	case callers == 1:
		goal("transaction", 1.5, toPublished)
	case callers == 64 && row.name == alone: // it is for few callers
	case callers == 64 && load.hot:
		goal("transaction", 30, toPublished)
		goal("UPDATE", 10, toPossible)
	case callers == 64:
		goal("transaction", 3.5, toPublished)
	}
	return strings.Join(texts, ", ")
}
