package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/slidegate/slidegate"
)

// The busy keys whose leases end together, and the cold keys that are used at the same time.
const (
	busyKeys      = 32
	busyPerSecond = 250.0 // for each key and process
	coldKeys      = 100_000
	coldPerSecond = 250.0 // for each process
	coldPart      = 500 * time.Millisecond
	afterPart     = 100 * time.Millisecond
	coldGoal      = 1.5
)

// coldTable measures whether requests for keys without leases wait longer when the leases of other keys end.
func (r *run) coldTable(ctx context.Context, server *leaseServer) (*table, error) {
	ends := 50
	if r.quick {
		ends = 2
	}
	r.logf("lease-waste: cold keys, %d part ends", ends)
	t := &table{
		title:   fmt.Sprintf("Leases over %s: keys without leases, at the ends of the parts of %d busy keys, processes: %d", server.name, busyKeys, leaseProcesses),
		columns: []string{"limiter", "when", "requests", "p50 µs", "p99 µs", "to elsewhere", "goal"}, names: 2,
	}
	if err := server.fresh(ctx); err != nil {
		return nil, err
	}
	stacks, err := server.stacks(leaseProcesses)
	if err != nil {
		return nil, err
	}
	var after, elsewhere histogram
	waits, err := coldWaits(ctx, stacks, time.Duration(ends)*coldPart)
	for i := range waits {
		after.merge(&waits[i].after)
		elsewhere.merge(&waits[i].elsewhere)
	}
	if err = errors.Join(err, closeStacks(ctx, stacks)); err != nil {
		return nil, err
	}
	most := float64(after.quantile(0.99)) / float64(max(elsewhere.quantile(0.99), 1))
	for _, row := range []struct {
		when, ratio, goal string
		h                 *histogram
	}{
		{"elsewhere", "", "", &elsewhere},
		{fmt.Sprintf("%v after a part's end", afterPart), fmt.Sprintf("%.2fx", most), goal(fmt.Sprintf("%gx", coldGoal), most <= coldGoal), &after},
	} {
		t.add(rowLease, row.when, fmt.Sprint(row.h.total), fmt.Sprintf("%.0f", micros(row.h.quantile(0.5))),
			fmt.Sprintf("%.0f", micros(row.h.quantile(0.99))), row.ratio, row.goal)
	}
	t.note("%d part ends, one every %v. Each process sends %.0f requests per second for each of the busy keys, and %.0f for one of %s others.",
		ends, coldPart, busyPerSecond, coldPerSecond, count(coldKeys))
	return t, nil
}

// coldWait is how long one caller waited for cold keys.
type coldWait struct{ after, elsewhere histogram }

// coldWaits runs some callers of each process for busy keys, and one for cold keys.
func coldWaits(ctx context.Context, stacks []*leaseStack, length time.Duration) ([]coldWait, error) {
	limit := slidegate.Limit{Name: "cold", Quota: leaseQuota, Window: 60 * coldPart, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: true}
	busy, cold := newKeys(0, busyKeys), newKeys(busyKeys, coldKeys)
	waits := make([]coldWait, len(stacks))
	start := time.Now().Truncate(coldPart).Add(coldPart / 2)
	crew := newCrew(len(stacks) * (callersEach + 1))
	err := crew.run(func(i int, _ *caller) error {
		l, err := slidegate.New(stacks[i%len(stacks)].top, limit)
		if err != nil {
			return err
		}
		random := rand.New(rand.NewPCG(uint64(i), 5))
		if i >= len(stacks) {
			return callPaced(length, evenly(random, start, busyKeys*busyPerSecond/callersEach), start, func() error {
				_, err := l.Allow(ctx, busy.at(random.IntN(busy.n)))
				return err
			})
		}
		return callPaced(length, evenly(random, start, coldPerSecond), start, func() error {
			began := time.Now()
			_, err := l.Allow(ctx, cold.at(random.IntN(cold.n)))
			into := &waits[i].elsewhere
			if began.Sub(began.Truncate(coldPart)) < afterPart { // the server has the same clock
				into = &waits[i].after
			}
			into.add(time.Since(began))
			return err
		})
	})
	return waits, err
}

// callPaced calls decide at the times that next returns, until the time is over.
func callPaced(length time.Duration, next arrivals, start time.Time, decide func() error) error {
	for when := next(); when.Sub(start) <= length; when = next() {
		time.Sleep(time.Until(when))
		if err := decide(); err != nil {
			return err
		}
	}
	return nil
}
