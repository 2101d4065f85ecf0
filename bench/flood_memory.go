package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// floodMemoryTables floods stores of several sizes in this process, on a simulated clock, and measures first-time clients during the
// flood.
func (r *run) floodMemoryTables() ([]*table, error) {
	if !r.measuresOwn() {
		return nil, nil
	}
	steps, sizes := []int{1_000_000, 3_000_000, 10_000_000, 30_000_000}, []int{32, 64, 128, 256}
	if r.quick {
		steps, sizes = []int{10_000, 30_000}, []int{1}
	}
	t := &table{
		title:   "Flood in memory: first-time clients refused, by the keys of the flood and the bound of the store",
		columns: []string{"limit", "units each", "bound MB"}, names: 1,
	}
	for _, n := range steps {
		t.columns = append(t.columns, count(n)+" keys", "not whole")
	}
	t.columns = append(t.columns, "heap MB")
	for _, c := range floodCases()[:4] {
		for _, megabytes := range sizes {
			r.logf("flood in memory: %s, %d units each, %d MB", c.limit, c.cost, megabytes)
			if err := r.floodMemory(t, &c, megabytes, steps); err != nil {
				return nil, err
			}
		}
	}
	t.note("First-time clients that are refused, and those that do not get their whole quota at once. All keys of the flood arrive within half a window.")
	return []*table{t}, nil
}

// floodStore opens a store with the given clock that is bounded to the given number of megabytes.
func floodStore(megabytes int, now func() rule.Micros) (*memstore.Store, error) {
	return memstore.New(memstore.Options{MaxBytes: int64(megabytes) << 20, Now: now})
}

// floodMemory adds the row of a store that receives more and more keys.
func (r *run) floodMemory(t *table, c *floodCase, mb int, steps []int) error {
	var clock atomic.Int64
	clock.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	before := measureMemory()
	store, err := floodStore(mb, func() rule.Micros { return rule.Micros(clock.Load()) })
	if err != nil {
		return err
	}
	limiter, err := slidegate.New(store, slidegate.Limit{Quota: c.quota, Window: c.window})
	if err != nil {
		return err
	}
	last := steps[len(steps)-1]
	cells := []string{c.limit, fmt.Sprint(c.cost), fmt.Sprint(mb)}
	var key [keyBytes]byte
	sent := 0
	start := clock.Load()
	for _, step := range steps {
		for ; sent < step; sent++ {
			clock.Store(start + int64(sent)*c.window.Microseconds()/2/int64(last))
			writeKey(key[:], sent)
			if _, err := limiter.AllowN(context.Background(), string(key[:]), c.cost); err != nil {
				return err
			}
		}
		refused, part, err := peekNewClients(limiter, c.quota)
		if err != nil {
			return err
		}
		cells = append(cells, percent(refused), percent(part))
	}
	r.addRow(t, append(cells, megabytes(measureMemory().less(before).heap))...)
	runtime.KeepAlive(limiter) // until its memory was measured
	return nil
}

// peekNewClients peeks at new clients, and returns the share that is refused, and the share that does not get its whole quota.
func peekNewClients(l *slidegate.Limiter, quota int64) (refused, less float64, err error) {
	const some = 20_000
	var key [keyBytes]byte
	for i := range some {
		writeKey(key[:], firstTimers+i)
		for _, side := range []struct {
			units int64
			into  *float64
		}{{1, &refused}, {quota, &less}} {
			d, err := l.Peek(context.Background(), string(key[:]), side.units)
			if err != nil {
				return 0, 0, err
			}
			if !d.Allowed {
				*side.into += 1.0 / some
			}
		}
	}
	return refused, less, nil
}
