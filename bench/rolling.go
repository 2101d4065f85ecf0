package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// rollingCase is a number of keys whose limiters wait between their rounds while the others are timed, so that nearly every decision
// finds parts of its window gone, as decisions about very many keys do in a program.
type rollingCase struct {
	name   string
	keys   int // a share of -keys, in tenths
	window time.Duration
	passes int // how often each key is used before the timed rounds
	units  int // how many units it then uses at a time
	pause  time.Duration
}

// rollingQuota is above the quotas for which the default is a log.
const rollingQuota = 600

var rollingCases = []rollingCase{
	{name: "1 unit", keys: 10, window: time.Minute, passes: 1, units: 1},
	{name: "10 units", keys: 10, window: time.Minute, passes: 10, units: 1, pause: 4 * time.Second},
	{name: "590 units in 59 parts", keys: 4, window: 10 * time.Minute, passes: 59, units: 10, pause: 10 * time.Second},
}

// hundred is the largest quota of which the default keeps a log.
const hundred = 100

// rollingRow is a limiter that stays open for a whole case.
type rollingRow struct {
	library
	quota  int64
	opened limiter
	heap   float64 // bytes per key after the first pass
}

// rollingRows are the ways to count that the default replaces or stands beside, and the peers that keep their keys.
func (r *run) rollingRows() []rollingRow {
	var rows []rollingRow
	if r.measuresOwn() {
		rows = []rollingRow{
			{library: defaultRow(), quota: rollingQuota},
			{library: defaultRow(), quota: hundred},
			{library: slidegateRowNamed(rowSixty), quota: rollingQuota},
			{library: slidegateRowNamed(rowWindow), quota: rollingQuota},
		}
		rows[1].name += ", quota 100"
		rows[1].ownQuota = true // it is used up if there are many rounds
	}
	for _, l := range r.libraries {
		if l.peer() && l.keyed {
			rows = append(rows, rollingRow{library: l, quota: rollingQuota})
		}
	}
	return rows
}

// rollingTables returns the scenario of a case.
func (r *run) rollingTables(c *rollingCase) func() ([]*table, error) {
	return func() ([]*table, error) {
		t, err := r.rollingTable(c)
		return []*table{t}, err
	}
}

func (r *run) rollingTable(c *rollingCase) (*table, error) {
	n, rows := r.keys*c.keys/10, r.rollingRows()
	all := newKeys(0, n)
	lists := perGoroutine(slices.Max(r.procs), func(seed uint64) keys { return all.uniform(max(n, 1<<16), seed) })
	pause := c.pause
	if r.quick {
		pause = 0
	}
	for pass := range c.passes {
		next := time.Now().Add(pause)
		for i := range rows {
			if err := rows[i].pass(c, all, pass); err != nil {
				return nil, err
			}
		}
		r.logf("rolling, %s: pass %d of %d", c.name, pass+1, c.passes)
		time.Sleep(time.Until(next))
	}
	s := results{}
	for round := range r.rounds {
		r.logf("rolling, %s: round %d of %d", c.name, round+1, r.rounds)
		for i := range rows {
			row := &rows[(i+round)%len(rows)]
			for _, procs := range r.procs {
				before := runtime.GOMAXPROCS(procs)
				// So few that a key has not many more units afterwards.
				s.at(cell{row.name, c.name, procs}).add(timed(row.opened, lists[:procs], round*n/4, n/4))
				runtime.GOMAXPROCS(before)
			}
		}
	}
	for i := range rows {
		rows[i].opened.Close()
	}
	return r.rollingResults(c, n, rows, s), nil
}

// pass uses every key. The first one opens the limiter and measures its memory.
func (row *rollingRow) pass(c *rollingCase, all keys, pass int) error {
	if pass == 0 {
		var err error
		if row.opened, err = row.open(spec{quota: row.quota, window: c.window, keys: all.n}); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	before := measureMemory()
	target, own := row.opened.(*slidegateLimiter)
	for i := range all.n {
		if own {
			target.spend(all.at(i), min(int64(c.units), row.quota/int64(c.passes)))
			continue
		}
		for range c.units {
			row.opened.Allow(all.at(i))
		}
	}
	if pass == 0 {
		row.heap = float64(measureMemory().less(before).heap) / float64(all.n)
	}
	return nil
}

// rollingResults makes the table of a case.
func (r *run) rollingResults(c *rollingCase, n int, rows []rollingRow, s results) *table {
	t := &table{title: fmt.Sprintf("Time: %s keys, %s, decisions after a pause", count(n), c.name), columns: []string{"library", "first B/key"}}
	for _, procs := range r.procs {
		t.columns = append(t.columns, fmt.Sprintf("%d CPU ns/op", procs), "to keyed", "to window", "to 60 parts")
	}
	t.columns = append(t.columns, "allowed", "spread")
	for i := range rows {
		row := &rows[i]
		cells := []string{row.name, fmt.Sprintf("%.0f", row.heap)}
		lowest, spread := 1.0, 0.0
		for _, procs := range r.procs {
			fastest := func(take func(*rollingRow) bool) float64 {
				ns := math.Inf(1)
				for j := range rows {
					if take(&rows[j]) {
						ns = min(ns, median(s.at(cell{rows[j].name, c.name, procs}).nanos))
					}
				}
				return ns
			}
			got := s.at(cell{row.name, c.name, procs})
			ns := median(got.nanos)
			lowest, spread = min(lowest, got.share()), max(spread, got.spread())
			cells = append(cells, nanos(ns), ratio(fastest(func(row *rollingRow) bool { return row.peer() }), ns),
				ratio(fastest(func(row *rollingRow) bool { return row.name == rowWindow }), ns),
				ratio(fastest(func(row *rollingRow) bool { return row.name == rowSixty }), ns))
		}
		t.add(append(cells, percent(lowest), fmt.Sprintf("±%.0f%%", 50*spread))...)
	}
	t.note("Every key was used %d times, %d units each, with a quota of %d in %v. Medians of %d interleaved rounds; all limiters stay open, and each waits "+
		"while the others are timed; first B/key is the heap after the first use. Ratios are of decisions per second: to the fastest peer that keeps the keys itself, to Slidegate's "+
		"window of one part, and to its window of 60 parts.", c.passes, c.units, rollingQuota, c.window, r.rounds)
	return t
}
