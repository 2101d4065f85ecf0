package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// expiryPlan is the plan of the expiry scenario: fill a store, then send requests at a steady pace while the keys expire.
type expiryPlan struct {
	window time.Duration // after which keys expire; the load lasts for three windows, since a sliding window ends after two
	filled keys
	fresh  []keys // for each goroutine, its new keys
	known  keys   // a few keys that are used all the time
	rounds int
}

const (
	knownKeys = 1024
	// endlessWindow is a window in which nothing expires during the run.
	endlessWindow = 24 * time.Hour
)

func (r *run) newExpiryPlan() *expiryPlan {
	p := &expiryPlan{window: 2 * time.Second, rounds: min(3, r.rounds)}
	if r.quick {
		p.window, p.rounds = 100*time.Millisecond, 1
	}
	p.filled, p.known = newKeys(0, r.keys), newKeys(r.keys, knownKeys)
	goroutines := max(1, runtime.NumCPU()-1) // leaves one processor for the sweepers and the garbage collector
	for i := range goroutines {
		p.fresh = append(p.fresh, newKeys(r.keys+knownKeys+i*r.keys, r.keys))
	}
	return p
}

// expiryTables measures how long callers wait while keys expire, and how long they wait when no keys expire.
func (r *run) expiryTables() ([]*table, error) {
	p := r.newExpiryPlan()
	libraries := rowsWhere(r.libraries, func(l *library) bool { return l.expires })
	libraries = append(libraries, library{name: "(no limiter)", open: func(spec) (limiter, error) { return noLimiter{}, nil }})
	calm, busy := make([]latencies, len(libraries)), make([]latencies, len(libraries))
	for round := range p.rounds {
		for i := range libraries {
			r.logf("expiry: round %d of %d: %s", round+1, p.rounds, libraries[i].name)
			for _, side := range []struct {
				window time.Duration
				into   *latencies
			}{{endlessWindow, &calm[i]}, {p.window, &busy[i]}} {
				h, heap, err := p.latency(&libraries[i], side.window)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", libraries[i].name, err)
				}
				side.into.add(h, heap)
			}
		}
	}
	return []*table{p.table(libraries, calm, busy)}, nil
}

func (p *expiryPlan) table(libraries []library, calm, busy []latencies) *table {
	t := &table{
		title:   fmt.Sprintf("Expiry: how long a caller waits while %s keys expire, in µs", count(p.filled.n)),
		columns: []string{"library", "keys", "p50", "p99", "p99.99", "max", "over 1 ms", "MB after"},
		names:   2,
	}
	for i := range libraries {
		t.add(append([]string{libraries[i].name, "none expire"}, calm[i].cells(nil)...)...)
		t.add(append([]string{"", "all expire"}, busy[i].cells(nil)...)...)
		t.add(append([]string{"", "difference"}, busy[i].cells(&calm[i])...)...)
	}
	t.note("A steady load, half of it new keys, for %v. Window %v, or %v where none expire; sweepers run every half window.",
		3*p.window, p.window, endlessWindow)
	t.note("p50 and p99 are medians of %d rounds, and the other figures are minimums: every round has a sweep, but not every round has noise of the "+
		"machine. The rows without a limiter show how much of that noise remains.", p.rounds)
	return t
}

// latency fills a store, and times each decision of the load that follows.
func (p *expiryPlan) latency(l *library, window time.Duration) (h *histogram, heap int64, err error) {
	before := measureMemory()
	opened, err := l.open(spec{
		quota: scantQuota, window: window, sweep: window / 2,
		keys: 2 * (len(p.fresh) + 1) * p.filled.n, // space for all keys, so that none is forgotten before it expires
	})
	if err != nil {
		return nil, 0, err
	}
	defer opened.Close()
	drive(opened, p.filled, 0, p.filled.n)
	seen := make([]histogram, len(p.fresh))
	var done sync.WaitGroup
	for i := range p.fresh {
		done.Go(func() { p.pace(opened, p.fresh[i], &seen[i]) })
	}
	done.Wait()
	for i := range seen[1:] {
		seen[0].merge(&seen[i+1])
	}
	heap = measureMemory().less(before).heap
	runtime.KeepAlive(opened)
	return &seen[0], heap, nil
}

// pace sends requests for a new key and a known one in turn, at times that do not depend on how long the decisions take.
func (p *expiryPlan) pace(l limiter, fresh keys, h *histogram) {
	every := 3 * p.window / time.Duration(2*fresh.n)
	base := time.Now()
	for i := range 2 * fresh.n {
		key := p.known.at(i / 2 % knownKeys)
		if i%2 == 0 {
			key = fresh.at(i / 2)
		}
		start := time.Since(base)
		for due := time.Duration(i) * every; start < due; {
			start = time.Since(base)
		}
		l.Allow(key)
		h.add(time.Since(base) - start)
	}
}

// latencies holds the figures of several rounds: each is a list with one value per round. Times are in
// microseconds, memory is in MB.
type latencies [6][]float64

func (l *latencies) add(h *histogram, heap int64) {
	for i, d := range []time.Duration{h.quantile(0.5), h.quantile(0.99), h.quantile(0.9999), h.longest} {
		l[i] = append(l[i], float64(d)/1e3)
	}
	l[4] = append(l[4], float64(h.over(time.Millisecond)))
	l[5] = append(l[5], float64(heap)/(1<<20))
}

// value returns the figure over all rounds: the median of common waits, and the minimum of rare ones.
func (l *latencies) value(i int) float64 {
	if i < 2 {
		return median(l[i])
	}
	return slices.Min(l[i])
}

// cells formats the figures, minus those of less if it is not nil.
func (l *latencies) cells(less *latencies) []string {
	formats := []string{"%.2f", "%.2f", "%.1f", "%.0f", "%.0f", "%.0f"}
	cells := make([]string, len(l))
	for i := range l {
		value, format := l.value(i), formats[i]
		if less != nil {
			value, format = value-less.value(i), "%+"+format[1:]
		}
		cells[i] = fmt.Sprintf(format, value)
	}
	return cells
}
