package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// steadyRow is a limiter whose keys are in the state of a program that has run for a while: every key has been used evenly over a
// whole window, by the real clock, so that each request adds about as much to the window as leaves it.
type steadyRow struct {
	library
	passes int   // how often each key is used in a window before the timed rounds
	cost   int64 // units per request
	spare  int   // how many more passes would fit into the window
}

// steadyQuota is the quota of every key.
const steadyQuota = 100

// steadyRows are the rows of the scenario. For peers each key is used twice, in a window that does not end: their state of a key
// does not grow with its requests, and none of them has to begin a new window in the timed rounds.
func (r *run) steadyRows() []steadyRow {
	log := slidegateRowNamed(rowLog)
	ten, hundred := log, log
	ten.name, hundred.name = log.name+", 10 live", log.name+", 100 live"
	ten.ownQuota, hundred.ownQuota = false, false
	rows := []steadyRow{{defaultRow(), 10, 1, 0}, {ten, 10, 1, 0}, {hundred, 92, 1, 8}}
	for _, name := range []string{rowSix, rowSixty, rowWindow} {
		rows = append(rows, steadyRow{slidegateRowNamed(name), 10, 1, 0})
	}
	rows = append(rows, steadyRow{slidegateRowNamed(rowBucket), 10, 16, 0}) // 10 are refilled in the meantime, so it is never full
	if !r.measuresOwn() {
		rows = nil
	}
	for _, l := range r.libraries {
		if l.peer() {
			rows = append(rows, steadyRow{library: l, passes: 2})
		}
	}
	return rows
}

// slidegateRowNamed returns one of the rows of Slidegate.
func slidegateRowNamed(name string) library {
	rows := slidegateRows()
	return rows[slices.IndexFunc(rows, func(l library) bool { return l.name == name })]
}

// spender is a limiter that can take several units at once, and report what a key has used.
type spender interface {
	spend(key string, units int64) bool
	used(key string) int64
}

// steadyPlan holds what the rows have in common, and what the calibration round measured for each.
type steadyPlan struct {
	all   keys
	load  load
	slots map[string]time.Duration // by row, how long a pass may take
	live  map[string][]float64     // by row, how many units a key had used before and after each timed round
}

// steadyTables measures many keys in their steady state.
func (r *run) steadyTables() ([]*table, error) {
	rows := r.steadyRows()
	p := &steadyPlan{all: newKeys(0, r.keys), slots: map[string]time.Duration{}, live: map[string][]float64{}}
	lists := perGoroutine(slices.Max(r.procs), func(seed uint64) keys { return p.all.uniform(max(r.keys, 1<<16), seed) })
	p.load = load{
		name:  fmt.Sprintf("%s keys, uniform, in the steady state of %d per window", count(r.keys), steadyQuota),
		lists: func(*library) []keys { return lists }, minShare: 0.99, maxShare: 1,
		most: 2 * r.keys, // so that what a key has used changes little
	}
	if r.quick {
		p.load.minShare = 0.5 // its windows are so short that a few milliseconds matter
	}
	s := results{}
	for round := 0; round <= r.rounds; round++ {
		for i := range rows {
			row := &rows[(i+round)%len(rows)]
			r.logf("steady: round %d of %d: %s", round, r.rounds, row.name)
			if err := r.timeSteady(p, row, round, s); err != nil {
				return nil, fmt.Errorf("%s: %w", row.name, err)
			}
			debug.FreeOSMemory() // so that nothing of this store is left for the next one
		}
	}
	libraries := make([]library, len(rows))
	var live []string
	for i := range rows {
		libraries[i] = rows[i].library
		if of := p.live[rows[i].name]; len(of) > 0 {
			live = append(live, fmt.Sprintf("%s %.0f to %.0f", strings.TrimPrefix(rows[i].name, "slidegate, "), slices.Min(of), slices.Max(of)))
		}
	}
	t := r.timeTable(&p.load, libraries, s)
	t.note("Slidegate's keys were used evenly over a whole window of the real clock before the timed rounds. Units used by a key, the mean "+
		"of some, before and after the timed rounds: %s.", strings.Join(live, "; "))
	t.note("Peers have a window that does not end while they are timed, which spares them the work at its end.")
	return []*table{t}, nil
}

// timeSteady brings a limiter into its steady state and times it. The round before the first finds out how long a pass
// through all keys takes, and how many operations make a round.
func (r *run) timeSteady(p *steadyPlan, row *steadyRow, round int, s results) error {
	opened, err := row.open(spec{quota: steadyQuota, window: p.window(row), keys: r.keys})
	if err != nil {
		return err
	}
	defer opened.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
	target, own := opened.(spender)
	switch {
	case own && round == 0:
		p.slots[row.name] = p.findSlot(row, target)
	case own:
		p.fill(row, target)
		p.noteLive(row, target)
	default:
		for range row.passes {
			p.pass(func(key string) { opened.Allow(key) })
		}
	}
	for _, procs := range r.procs {
		runtime.GOMAXPROCS(procs)
		lists := p.load.lists(nil)[:procs]
		into := s.at(cell{row.name, p.load.name, procs})
		if round == 0 {
			into.ops = calibrate(opened, lists, r.roundTime(), p.load.most)
			continue
		}
		into.add(timed(opened, lists, into.rounds*into.ops, into.ops))
	}
	if own && round > 0 {
		p.noteLive(row, target)
	}
	return nil
}

// window returns the window of a row: one slot per pass, or one that does not end, for peers and while the slots are not known.
func (p *steadyPlan) window(row *steadyRow) time.Duration {
	slot := p.slots[row.name]
	if slot == 0 {
		return endlessWindow
	}
	const whole = 60 * time.Millisecond // so that it divides into parts
	return (time.Duration(row.passes+row.spare)*slot + whole - 1) / whole * whole
}

// findSlot returns how long a pass may take, with some time to spare for other work of the machine.
func (p *steadyPlan) findSlot(row *steadyRow, l spender) time.Duration {
	var longest time.Duration
	for range 2 {
		start := time.Now()
		p.pass(func(key string) { l.spend(key, row.cost) })
		longest = max(longest, time.Since(start))
	}
	return longest * 5 / 4
}

// fill uses every key, once in each slot of the window, until the first units are about to leave it.
func (p *steadyPlan) fill(row *steadyRow, l spender) {
	slot, start := p.window(row)/time.Duration(row.passes+row.spare), time.Now()
	for i := range row.passes {
		time.Sleep(time.Until(start.Add(time.Duration(i) * slot)))
		p.pass(func(key string) { l.spend(key, row.cost) })
	}
	time.Sleep(time.Until(start.Add(p.window(row))))
}

// pass uses every key once, from all processors, in the same order each time.
func (p *steadyPlan) pass(send func(key string)) {
	var done sync.WaitGroup
	n := runtime.NumCPU()
	for i := range n {
		done.Go(func() {
			for at := i * p.all.n / n; at < (i+1)*p.all.n/n; at++ {
				send(p.all.at(at))
			}
		})
	}
	done.Wait()
}

// noteLive records what some keys have used, which are as far apart in a pass as possible.
func (p *steadyPlan) noteLive(row *steadyRow, l spender) {
	some := min(1000, p.all.n)
	var sum int64
	for i := range some {
		sum += l.used(p.all.at(i * p.all.n / some))
	}
	p.live[row.name] = append(p.live[row.name], float64(sum)/float64(some))
}
