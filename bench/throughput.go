package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The quota of loads that must never be refused. It is as large as the largest in practice, and no round uses one key more often.
const (
	ampleQuota  = 8_000_000
	scantQuota  = 600 // so that the default is in parts
	quotaWindow = time.Hour
)

// hotTables measures one key that all callers use: always admitted, and always refused.
func (r *run) hotTables() ([]*table, error) {
	allowed, refused := r.hotLoad("hot key, allowed"), r.hotLoad("hot key, refused")
	allowed.most = ampleQuota / 10 * 9
	allowed.minShare, allowed.maxShare = 0.999, 1
	refused.minShare, refused.maxShare = 0, 0.001
	s, libraries := results{}, r.withDefault(r.libraries)
	for _, procs := range r.procs { // A fresh store for each, so that the quota is never used up.
		groups := []*group{
			{spec: spec{quota: ampleQuota, window: quotaWindow}, loads: []load{allowed}},
			{spec: spec{quota: scantQuota, window: quotaWindow}, loads: []load{refused}, fill: hotKeys, times: 2 * scantQuota},
		}
		for _, g := range groups {
			g.procs, g.libraries = []int{procs}, libraries
			if err := r.timeGroup(g, s); err != nil {
				return nil, err
			}
		}
	}
	t1, t2 := r.timeTable(&allowed, libraries, s), r.timeTable(&refused, libraries, s)
	t1.note("The sliding-log row takes turns on two keys with 10,000 a millisecond each, the most that a log can admit. With the " +
		"quotas of both tables the default is in parts.")
	return []*table{t1, t2}, nil
}

// hotKeys holds the keys that all callers use: most libraries get only the first one.
var hotKeys = newKeys(0, 2)

func (r *run) hotLoad(name string) load {
	return load{name: name, lists: func(l *library) []keys {
		n := max(1, l.hotKeys)
		return perGoroutine(slices.Max(r.procs), func(uint64) keys { return keys{hotKeys.block, n} })
	}}
}

// manyKeysTables measures many keys, all of them in the store before the timed rounds.
func (r *run) manyKeysTables() ([]*table, error) {
	var tables []*table
	for _, n := range r.keyCounts() {
		g := r.manyKeysGroup(n)
		s := results{}
		if err := r.timeGroup(g, s); err != nil {
			return nil, err
		}
		for i := range g.loads {
			tables = append(tables, r.timeTable(&g.loads[i], g.libraries, s))
		}
	}
	return tables, nil
}

func (r *run) manyKeysGroup(n int) *group {
	r.logf("making %s keys", count(n))
	all := newKeys(0, n)
	g := &group{
		libraries: r.librariesFor(n), spec: spec{quota: ampleQuota, window: quotaWindow, keys: n},
		fill: all, times: 1, procs: r.procs,
	}
	length := max(n, 1<<16)
	add := func(name string, order func(int, uint64) keys) {
		lists := perGoroutine(slices.Max(r.procs), func(seed uint64) keys { return order(length, seed) })
		g.loads = append(g.loads, load{
			name: fmt.Sprintf("%s keys, %s", count(n), name), minShare: 0.999, maxShare: 1,
			lists: func(*library) []keys { return lists },
		})
	}
	if r.wants("uniform") {
		add("uniform", all.uniform)
	}
	if r.wants("zipf") {
		add(fmt.Sprintf("zipf %g", zipfS), all.zipf)
	}
	return g
}

// withDefault puts the default before the rows of Slidegate, unless -only left those out.
func (r *run) withDefault(libraries []library) []library {
	if !r.measuresOwn() {
		return libraries
	}
	return append([]library{defaultRow()}, libraries...)
}

// timeTable makes the table of one load, and checks that the limiters decided as intended.
func (r *run) timeTable(l *load, libraries []library, s results) *table {
	t := &table{title: "Time: " + l.name, columns: []string{"library", "algorithm"}, names: 2}
	for _, procs := range r.procs {
		t.columns = append(t.columns, fmt.Sprintf("%d CPU ns/op", procs))
		if procs > 1 {
			t.columns = append(t.columns, "worked ns")
		}
		t.columns = append(t.columns, "to keyed", "to any", "to window")
	}
	t.columns = append(t.columns, "scales", "allocs/op", "allowed", "spread")
	for i := range libraries {
		row := &libraries[i]
		cells := []string{row.name, row.algorithm}
		var allocs, spread float64
		var times []float64
		lowest, highest := 1.0, 0.0
		for _, procs := range r.procs {
			got := s.at(cell{row.name, l.name, procs})
			times = append(times, median(got.nanos))
			cells = append(cells, nanos(median(got.nanos)))
			if procs > 1 {
				cells = append(cells, nanos(median(got.cpu)))
			}
			cells = append(cells, speeds(libraries, l, procs, s, median(got.nanos))...)
			allocs, spread = max(allocs, median(got.allocs)), max(spread, got.spread())
			lowest, highest = min(lowest, got.share()), max(highest, got.share())
		}
		if minShare := minShareOf(row, l); lowest < minShare || highest > l.maxShare {
			r.fail("%s: %s: %.4f to %.4f of the requests were admitted, want %g to %g",
				l.name, row.name, lowest, highest, minShare, l.maxShare)
		}
		t.add(append(cells, ratio(times[0], times[len(times)-1]), allocations(allocs), percent(lowest), fmt.Sprintf("±%.0f%%", 50*spread))...)
	}
	t.note("Medians of %d interleaved rounds: processor time with 1 CPU, time on the clock with more, and how long the processors worked in all. Ratios are of decisions per second; more is "+
		"better: to the fastest peer that keeps the keys itself, to the fastest of all, and to Slidegate's window of one part. Scales: how many "+
		"times as many decisions with the most CPUs as with the fewest. Spread is half the interquartile range, of the worse column.", r.rounds)
	return t
}

// speeds compares a time with those of the fastest keyed peer, of the fastest peer, and of Slidegate's window of one part.
func speeds(libraries []library, l *load, procs int, s results, ns float64) []string {
	of := func(take func(*library) bool) float64 {
		fastest := math.Inf(1)
		for i := range libraries {
			if row := &libraries[i]; take(row) {
				fastest = min(fastest, median(s.at(cell{row.name, l.name, procs}).nanos))
			}
		}
		if math.IsInf(fastest, 1) { // -only left them out
			return 0
		}
		return fastest
	}
	var cells []string
	for _, take := range []func(*library) bool{
		func(row *library) bool { return row.peer() && row.keyed },
		(*library).peer,
		func(row *library) bool { return row.name == rowWindow },
	} {
		reference := of(take)
		if reference == 0 {
			cells = append(cells, "-")
			continue
		}
		cells = append(cells, ratio(reference, ns))
	}
	return cells
}

// minShareOf returns the share of the requests that a row must admit.
func minShareOf(row *library, l *load) float64 {
	switch {
	case row.ownQuota:
		return 0
	case row.givesUp:
		return l.minShare * 0.9
	}
	return l.minShare
}

func allocations(n float64) string {
	if n < 0.005 {
		return "0"
	}
	return fmt.Sprintf("%.2f", n)
}

func percent(part float64) string {
	switch {
	case part == 1:
		return "100%"
	case part == 0:
		return "0%"
	}
	return fmt.Sprintf("%.2f%%", 100*part)
}
