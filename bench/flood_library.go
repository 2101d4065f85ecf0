package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// A flood is an attack with one new key after the other. A bounded limiter must neither run out of memory nor admit clients that it
// has refused.
const (
	floodQuota  = 5
	floodFactor = 10 // number of new keys per key that the store should hold
)

// floodResult is the result of one library.
type floodResult struct {
	bytes        int64     // how many bytes the limiter may take, if that can be set
	half, end    footprint // memory added after half of the keys, and after all of them
	victims      int       // keys that had used their quota before the flood
	stillRefused int       // how many of them are refused afterwards
	most         int       // the most that any one key was admitted
	refusedEarly int       // new keys that were refused at once
}

// bounded reports whether the memory stayed within its bound, or stopped growing: unbounded memory doubles in the second half of
// the flood.
func (f *floodResult) bounded() bool {
	const slack = 64 << 10
	if f.bytes > 0 {
		return int64(f.end.heap) <= f.bytes+slack
	}
	return f.end.heap <= f.half.heap+f.half.heap/4+slack
}

func (f *floodResult) holds() bool {
	return f.bounded() && f.stillRefused == f.victims && f.most <= floodQuota
}

func (r *run) floodTables() ([]*table, error) {
	bound := max(1000, r.keys/10)
	if r.big {
		bound = bigKeys / floodFactor
	}
	t := &table{
		title: fmt.Sprintf("Flood: %s new keys against a store for %s, quota %d", count(floodFactor*bound), count(bound), floodQuota),
		columns: []string{"library", "MB at half", "MB at end", "memory bounded", "refused keys still refused", "most admitted to a key",
			"new keys refused", "result"},
	}
	flood := newKeys(bound, floodFactor*bound)
	for _, l := range rowsWhere(r.librariesFor(floodFactor*bound), func(l *library) bool { return !l.aside }) {
		r.logf("flood: %s", l.name)
		f, err := r.flood(&l, bound, flood)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		result := "PASS"
		if !f.holds() {
			result = "FAIL"
			if l.family == own {
				r.fail("flood: %s: bounded %v, %d of %d still refused, at most %d of %d admitted",
					l.name, f.bounded(), f.stillRefused, f.victims, f.most, floodQuota)
			}
		}
		t.add(l.name, megabytes(f.half.heap), megabytes(f.end.heap), yesNo(f.bounded()), fmt.Sprintf("%d of %d", f.stillRefused, f.victims),
			fmt.Sprint(f.most), fmt.Sprint(f.refusedEarly), result)
	}
	t.note("One request in five has a key that was used before, and one new key in a hundred sends %d requests in a row. Only "+
		"Slidegate and throttled's LRU have a bound to set.", floodQuota+2)
	return []*table{t}, nil
}

// flood sends the keys, and counts how often each was admitted.
func (r *run) flood(l *library, bound int, flood keys) (*floodResult, error) {
	admitted := make([]uint8, flood.n)
	victims := newKeys(0, min(1000, bound/10))
	before := measureMemory()
	bytes := max(256<<10, 100*int64(bound)) // the least that Slidegate takes
	opened, err := l.open(spec{quota: floodQuota, window: quotaWindow, keys: bound, bytes: bytes})
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	for range floodQuota + 1 {
		drive(opened, victims, 0, victims.n)
	}
	f := &floodResult{victims: victims.n}
	if l.family == own {
		f.bytes = bytes
	}
	send := func(i int) bool {
		passed := opened.Allow(flood.at(i))
		if passed && admitted[i] < 255 {
			admitted[i]++
		}
		return passed
	}
	random := rand.New(rand.NewPCG(1, 5))
	for i := range flood.n {
		if i == flood.n/2 {
			f.half = measureMemory().less(before)
		}
		if !send(i) {
			f.refusedEarly++
		}
		if random.IntN(4) == 0 {
			send(random.IntN(i + 1))
		}
		for again := floodQuota + 1; i%100 == 0 && again > 0; again-- {
			send(i)
		}
	}
	f.end = measureMemory().less(before) // admitted was allocated before
	f.most = int(slices.Max(admitted))
	f.stillRefused = victims.n - drive(opened, victims, 0, victims.n)
	return f, nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
