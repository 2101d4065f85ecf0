package main

import (
	"fmt"
	"runtime"
	"time"
)

// residentTables measures what stored keys cost: memory, and the work of the garbage collector.
func (r *run) residentTables() ([]*table, error) {
	var tables []*table
	for _, n := range r.keyCounts() {
		t, err := r.residentTable(n)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	used, err := r.usedTable(r.keys)
	if err != nil || used == nil {
		return tables, err
	}
	return append(tables, used), nil
}

// usedTable measures what Slidegate's ways to count cost while keys have used several units each.
func (r *run) usedTable(n int) (*table, error) {
	t := &table{
		title:   fmt.Sprintf("Memory and garbage collection: %s keys that have used several units", count(n)),
		columns: []string{"library", "units used", "heap B/key", "to window", "resident B/key", "GC wall ms", "to window", "GC CPU ms", "to window"},
	}
	if !r.measuresOwn() {
		return nil, nil
	}
	all := newKeys(0, n)
	wall, cpu := collection()
	t.add("(no limiter)", "", "", "", "", wall.text(), "", cpu.text(), "")
	var window resident
	for _, row := range []struct {
		name  string
		units int
	}{{rowWindow, 10}, {rowLog, 1}, {rowLog, 10}, {rowLog, hundred}, {rowSix, 10}, {rowSixty, 10}, {rowBucket, 10}} {
		r.logf("memory, %s keys, %d units each: %s", count(n), row.units, row.name)
		l := slidegateRowNamed(row.name)
		m, err := measureUsed(&l, all, row.units)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.name, err)
		}
		if row.name == rowWindow {
			window = m
		}
		t.add(row.name, fmt.Sprint(row.units), fmt.Sprintf("%.1f", m.heap), ratio(m.heap, window.heap), fmt.Sprintf("%.1f", m.resident),
			m.wall.text(), ratio(float64(m.wall), float64(window.wall)), m.cpu.text(), ratio(float64(m.cpu), float64(window.cpu)))
	}
	t.note("One unit at a time, %d per %v; nothing expires. GC is the median of %d runs of runtime.GC while all keys are there.", hundred, quotaWindow, collections)
	return t, nil
}

// measureUsed makes every key use some units, one at a time.
func measureUsed(l *library, all keys, units int) (m resident, err error) {
	before := measureMemory()
	opened, err := l.open(spec{quota: hundred, window: quotaWindow, keys: all.n})
	if err != nil {
		return m, err
	}
	defer opened.Close()
	drive(opened, all, 0, units*all.n)
	m.weigh(before, all.n)
	runtime.KeepAlive(opened)
	return m, nil
}

func (r *run) residentTable(n int) (*table, error) {
	t := &table{
		title:   fmt.Sprintf("Memory and garbage collection: %s keys, one unit used", count(n)),
		columns: []string{"library", "algorithm", "heap B/key", "ratio", "resident B/key", "forgotten", "GC wall ms", "GC CPU ms"},
		names:   2,
	}
	libraries, all := r.librariesFor(n), newKeys(0, n)
	wall, cpu := collection()
	t.add("(no limiter)", "", "", "", "", "", wall.text(), cpu.text())
	measured := make([]resident, len(libraries))
	leastHeap := 0.0
	for i := range libraries {
		l := &libraries[i]
		r.logf("memory, %s keys: %s", count(n), l.name)
		var err error
		if measured[i], err = measureResident(l, all); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		if l.peer() && (leastHeap == 0 || measured[i].heap < leastHeap) {
			leastHeap = measured[i].heap
		}
	}
	for i, m := range measured {
		l := &libraries[i]
		t.add(l.name, l.algorithm, fmt.Sprintf("%.1f", m.heap), ratio(m.heap, leastHeap), fmt.Sprintf("%.1f", m.resident),
			m.forgotten, m.wall.text(), m.cpu.text())
	}
	t.note("The bytes of the keys are not counted. Libraries that store keys point into the list that the keys come from; in a "+
		"program each such key would keep another %d bytes alive.", (keyBytes+7)/8*8)
	t.note("httprate is in its first window; from the second one on it holds two maps, and twice the memory.")
	t.note("Ratio is to the peer that needs the least; GC is the median of %d runs of runtime.GC.", collections)
	return t, nil
}

// resident holds the cost of stored keys.
type resident struct {
	heap, resident float64 // bytes for each key
	forgotten      string  // how many keys a bounded store did not keep; empty if unknown
	wall, cpu      millis
}

// millis is a time in milliseconds, negative if unknown.
type millis float64

func (m millis) text() string {
	if m < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(m))
}

// residentQuota is so small that a token bucket refills nothing during the measurement.
const residentQuota = 4

// usageReporter is a limiter that can report what a key has used.
type usageReporter interface{ used(key string) int64 }

func measureResident(l *library, all keys) (m resident, err error) {
	before := measureMemory()
	opened, err := l.open(spec{quota: residentQuota, window: quotaWindow, keys: all.n})
	if err != nil {
		return m, err
	}
	defer opened.Close()
	drive(opened, all, 0, all.n)
	m.weigh(before, all.n)
	if reporter, ok := opened.(usageReporter); ok {
		forgotten := 0
		for i := range all.n {
			if reporter.used(all.at(i)) != 1 {
				forgotten++
			}
		}
		m.forgotten = fmt.Sprint(forgotten)
	}
	runtime.KeepAlive(opened)
	return m, nil
}

// weigh measures the memory added since before, per key, and how long a garbage collection takes now.
func (m *resident) weigh(before footprint, n int) {
	took := measureMemory().less(before)
	m.heap, m.resident = float64(took.heap)/float64(n), float64(took.resident)/float64(n)
	m.wall, m.cpu = collection()
}

// collections is how many garbage collections are timed.
const collections = 7

// collection returns how long a garbage collection takes, by the clock and on the processors.
func collection() (wall, cpu millis) {
	var walls, cpus []float64
	known := true
	for range collections {
		cpuBefore, _ := cpuTime()
		start := time.Now()
		runtime.GC()
		walls = append(walls, float64(time.Since(start))/1e6)
		cpuAfter, ok := cpuTime()
		known = known && ok
		cpus = append(cpus, float64(cpuAfter-cpuBefore)/1e6)
	}
	if !known {
		return millis(median(walls)), -1
	}
	return millis(median(walls)), millis(median(cpus))
}

// logTables measures the exact log, which grows as it is used, against a ring that is allocated in full for each key.
func (r *run) logTables() ([]*table, error) {
	const quota = 100
	t := &table{
		title:   fmt.Sprintf("Memory: exact logs, quota %d", quota),
		columns: []string{"log", "keys", "units used", "heap B/key", "ratio"},
	}
	logs := rowsWhere(r.libraries, func(l *library) bool { return l.family == own && l.algorithm == "exact log" })
	if len(logs) == 0 {
		return nil, nil
	}
	keyCount := max(1000, r.keys/10)
	all := newKeys(0, keyCount)
	r.logf("memory: logs of %s keys", count(keyCount))
	ring := measureRing(all, quota)
	for _, units := range []int{1, 10, quota} {
		heap, err := measureLog(&logs[0], all, quota, units)
		if err != nil {
			return nil, err
		}
		t.add(logs[0].name, count(keyCount), fmt.Sprint(units), fmt.Sprintf("%.1f", heap), ratio(heap, ring))
	}
	t.add("a ring of the quota, 24 B per unit", count(keyCount), "any", fmt.Sprintf("%.1f", ring), "1.00x")
	t.note("The ring stands for limiters that allocate a time.Time for each unit of the quota when they first see a key; it is " +
		"measured as a map of such slices, without the rest of a limiter.")
	return []*table{t}, nil
}

func measureLog(l *library, all keys, quota int64, units int) (heap float64, err error) {
	before := measureMemory()
	opened, err := l.open(spec{quota: quota, window: quotaWindow, keys: all.n})
	if err != nil {
		return 0, err
	}
	drive(opened, all, 0, all.n*units)
	took := measureMemory().less(before)
	runtime.KeepAlive(opened)
	return float64(took.heap) / float64(all.n), nil
}

func measureRing(all keys, quota int) (heap float64) {
	before := measureMemory()
	rings := map[string][]time.Time{}
	for i := range all.n {
		rings[all.at(i)] = make([]time.Time, quota)
	}
	took := measureMemory().less(before)
	runtime.KeepAlive(rings)
	return float64(took.heap) / float64(all.n)
}
