package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// load is the load of the limiters in one timed round.
type load struct {
	name string
	// lists has one list of keys for each goroutine.
	lists func(*library) []keys
	// most is the largest number of operations in a round; 0 means as many as fit the time.
	most int
	// The share of admitted requests must lie between these; otherwise the limiter did not decide as intended.
	minShare, maxShare float64
}

// group is a set of loads that are timed in turn on the same store.
type group struct {
	libraries []library
	spec      spec
	fill      keys // the keys that are stored before anything is timed
	times     int  // how often each of them has been used
	loads     []load
	procs     []int
	longer    int // how many times the usual time a round takes; 0 means 1
}

// cell identifies the figure of a table that a sample belongs to.
type cell struct {
	library, load string
	procs         int
}

// samples holds the figures of the rounds of a cell.
type samples struct {
	ops      int // in one round; calibrated so that it takes about the round's time
	rounds   int
	nanos    []float64
	cpu      []float64 // nanoseconds of all processors together
	allocs   []float64
	requests int64
	passed   int64
}

// results are the samples of all cells.
type results map[cell]*samples

func (s results) at(c cell) *samples {
	if s[c] == nil {
		s[c] = &samples{}
	}
	return s[c]
}

// timeGroup times all libraries, the rounds interleaved: round 1 of all, round 2 of all, and so on, so that other load on the
// machine affects all of them. Every round has a fresh store, and no other store exists. A calibration round before the first one
// determines the number of operations per round.
func (r *run) timeGroup(g *group, s results) error {
	for round := 0; round <= r.rounds; round++ {
		r.logf("%s: round %d of %d", g.loads[0].name, round, r.rounds)
		for i := range g.libraries {
			l := &g.libraries[(i+round)%len(g.libraries)]
			if err := r.timeOnce(g, l, round, s); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			debug.FreeOSMemory() // so that nothing of this store is left for the next one
		}
	}
	return nil
}

func (r *run) timeOnce(g *group, l *library, round int, s results) error {
	opened, err := l.open(g.spec)
	if err != nil {
		return err
	}
	defer opened.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
	for range g.times {
		drive(opened, g.fill, 0, g.fill.n)
	}
	for _, procs := range g.procs {
		runtime.GOMAXPROCS(procs)
		for _, load := range g.loads {
			lists := load.lists(l)[:procs]
			into := s.at(cell{l.name, load.name, procs})
			if round == 0 {
				into.ops = calibrate(opened, lists, r.roundTime()*time.Duration(max(1, g.longer)), load.most)
				continue
			}
			into.add(timed(opened, lists, into.rounds*into.ops, into.ops))
		}
	}
	return nil
}

// drive sends ops requests for the keys of the list, from the given position on, and starts over at its end. It returns how many were
// admitted.
func drive(l limiter, list keys, from, ops int) (passed int) {
	at := from % list.n
	for range ops {
		if l.Allow(list.at(at)) {
			passed++
		}
		if at++; at == list.n {
			at = 0
		}
	}
	return passed
}

// sample holds the figures of one timed round.
type sample struct {
	elapsed time.Duration
	cpu     time.Duration // of all processors together
	mallocs uint64
	ops     int
	passed  int64
}

// timed sends about ops requests in all, from one goroutine per list.
func timed(l limiter, lists []keys, from, ops int) sample {
	each := max(1, ops/len(lists))
	passed := make([]int, len(lists))
	begin := make(chan struct{})
	var done sync.WaitGroup
	for i, list := range lists {
		done.Go(func() {
			<-begin
			passed[i] = drive(l, list, from, each)
		})
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	watch := startWatch(len(lists))
	close(begin)
	done.Wait()
	elapsed, cpu := watch.elapsed(), watch.worked()
	runtime.ReadMemStats(&after)
	s := sample{elapsed: elapsed, cpu: cpu, mallocs: after.Mallocs - before.Mallocs, ops: each * len(lists)}
	for _, n := range passed {
		s.passed += int64(n)
	}
	return s
}

// stopwatch measures a round. With a single processor it uses the CPU time of this process, which does not depend on what else runs
// on the machine. With several it uses wall clock time, because a processor that waits for another one uses no CPU time although
// the caller waits.
type stopwatch struct {
	start time.Time
	cpu   time.Duration
	byCPU bool
}

func startWatch(procs int) stopwatch {
	w := stopwatch{start: time.Now()}
	var known bool
	w.cpu, known = cpuTime()
	w.byCPU = known && procs == 1
	return w
}

// worked returns the CPU time of this process on all processors together.
func (w *stopwatch) worked() time.Duration {
	cpu, _ := cpuTime()
	return cpu - w.cpu
}

func (w *stopwatch) elapsed() time.Duration {
	if w.byCPU {
		return w.worked()
	}
	return time.Since(w.start)
}

// calibrate returns how many operations take about the given time.
func calibrate(l limiter, lists []keys, length time.Duration, most int) int {
	if most == 0 {
		most = 1 << 24
	}
	ops := 1 << 10
	for {
		s := timed(l, lists, 0, ops)
		if s.elapsed >= length/20 || ops*4 > most {
			fitting := int(float64(s.ops) * float64(length) / float64(max(s.elapsed, 1)))
			return max(1<<10, min(fitting, most))
		}
		ops *= 4
	}
}

func (s *samples) add(one sample) {
	s.rounds++
	s.nanos = append(s.nanos, float64(one.elapsed)/float64(one.ops))
	s.cpu = append(s.cpu, float64(one.cpu)/float64(one.ops))
	s.allocs = append(s.allocs, float64(one.mallocs)/float64(one.ops))
	s.requests += int64(one.ops)
	s.passed += one.passed
}

// share returns the share of the requests that was admitted.
func (s *samples) share() float64 { return float64(s.passed) / float64(max(s.requests, 1)) }

// spread returns the width of the middle half of the rounds, relative to the median.
func (s *samples) spread() float64 {
	return (quantile(s.nanos, 0.75) - quantile(s.nanos, 0.25)) / max(median(s.nanos), 1e-9)
}
