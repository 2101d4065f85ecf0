package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// overload is the load as a multiple of the quota.
const overload = 1.5

// wasteRow is a limit that several processes share, and the pattern of their requests.
type wasteRow struct {
	limit  slidegate.Limit
	bursts bool
	goal   float64 // of what one exact store admits
}

// busyWaste returns limits with so many requests that each is measured alone.
func busyWaste() []wasteRow {
	return []wasteRow{
		{limit: slidegate.Limit{Name: "one part", Quota: 6000, Window: time.Second, Algorithm: slidegate.SlidingWindow}, goal: 0.99},
		{limit: slidegate.Limit{Name: "60 parts", Quota: 36_000, Window: 6 * time.Second, Segments: 60, Overlap: slidegate.OverlapWhole}, goal: 0.99},
		{limit: slidegate.Limit{Name: "bucket", Quota: 6000, Window: time.Second, Algorithm: slidegate.TokenBucket}, goal: 0.99},
	}
}

// smallQuotaWaste returns limits with a small quota, which are measured at the same time. With evenly spread requests, each process has
// too few for a lease; in bursts it has enough.
func smallQuotaWaste() (rows []wasteRow) {
	for _, bursts := range []bool{false, true} {
		for _, limit := range []slidegate.Limit{
			{Name: "scant, one part", Quota: 120, Window: time.Second, Algorithm: slidegate.SlidingWindow},
			{Name: "scant, 60 parts", Quota: 120, Window: 3 * time.Second, Segments: 60, Overlap: slidegate.OverlapWhole},
			{Name: "scant, bucket", Quota: 120, Window: time.Second, Algorithm: slidegate.TokenBucket},
		} {
			if bursts {
				limit.Name += ", bursts"
			}
			rows = append(rows, wasteRow{limit: limit, bursts: bursts, goal: 0.97})
		}
	}
	return rows
}

// leaseWasteTables measures what is not admitted because other processes hold the units, and how much longer requests for other keys
// wait when parts of a window end.
func (r *run) leaseWasteTables() ([]*table, error) {
	ctx := context.Background()
	t := &table{
		title:   fmt.Sprintf("Leases over Redis: waste, processes: %d, load: %g times the quota", leaseProcesses, overload),
		columns: []string{"limiter", "limit", "arrivals", "requests", "exact", "leased", "share", "from leases", "calls/s", "goal"},
		names:   3,
	}
	server, err := leaseRedis(ctx, t)
	if errors.Is(err, errLeftOut) {
		return []*table{t}, nil
	}
	if err != nil {
		return nil, err
	}
	defer server.close()
	for _, row := range busyWaste() {
		if err := r.waste(ctx, server, t, []wasteRow{row}); err != nil {
			return nil, err
		}
	}
	if err := r.waste(ctx, server, t, smallQuotaWaste()); err != nil {
		return nil, err
	}
	t.note("Each process is a separate stack of layers in this program, with its own goroutines; all share a client of Redis. Every request is also sent to "+
		"one exact store in memory with the same limit (a token bucket with the burst of a leased one); the share is of what that "+
		"admitted. %v each. Bursts take %v, once in a window. Calls are a process's, to the server; those of the limits with a quota of 120, "+
		"which are measured at the same time, are of all of them.", r.wasteTime(), burstLength)
	cold, err := r.coldTable(ctx, server)
	return []*table{t, cold}, err
}

// waste measures some limits at the same time.
func (r *run) waste(ctx context.Context, server *leaseServer, t *table, rows []wasteRow) error {
	r.logf("lease-waste: %s, and %d others", rows[0].limit.Name, len(rows)-1)
	if err := server.fresh(ctx); err != nil {
		return err
	}
	stacks, err := server.stacks(leaseProcesses)
	if err != nil {
		return err
	}
	samples, errs := make([]trafficSample, len(rows)), make([]error, len(rows))
	var done sync.WaitGroup
	for i := range rows {
		f, err := rows[i].traffic(stacks)
		if err != nil {
			return err
		}
		done.Go(func() { samples[i], errs[i] = f.run(ctx, r.wasteTime()) })
	}
	done.Wait()
	if err := errors.Join(append(errs, closeStacks(ctx, stacks))...); err != nil {
		return err
	}
	var calls int64
	for _, s := range stacks {
		calls += s.calls.n.Load()
	}
	for i, row := range rows {
		s, when := samples[i], "evenly"
		if row.bursts {
			when = "in bursts"
		}
		limit := row.limit
		limit.Name = ""
		t.add(rowLease, limit.String(), when, fmt.Sprint(s.requests), fmt.Sprint(s.exact), fmt.Sprint(s.leased), percent(s.share()),
			percent(float64(s.fromLeases)/float64(max(s.leased, 1))), fmt.Sprintf("%.0f", float64(calls)/leaseProcesses/r.wasteTime().Seconds()),
			goal(percent(row.goal), s.share() >= row.goal))
	}
	return nil
}

// traffic makes the load of a row, over the stacks of all processes.
func (row *wasteRow) traffic(stacks []*leaseStack) (*traffic, error) {
	exact, err := exactStore()
	if err != nil {
		return nil, err
	}
	limit := row.limit
	limit.Lease = true
	each := overload * float64(limit.Quota) / limit.Window.Seconds() / float64(len(stacks)*callersEach)
	f := &traffic{keys: newKeys(0, 1), arrivals: func(random *rand.Rand, start time.Time) arrivals {
		if row.bursts {
			return inBursts(random, start, limit.Window, each)
		}
		return evenly(random, start, each)
	}}
	if f.exact, err = limitDecider(exact, limit); err != nil {
		return nil, err
	}
	for _, s := range stacks {
		decide, err := limitDecider(s.top, limit)
		if err != nil {
			return nil, err
		}
		f.leased = append(f.leased, decide)
	}
	return f, nil
}

// limitDecider returns a function that decides a key under one limit.
func limitDecider(st store.Store, limit slidegate.Limit) (decideFunc, error) {
	l, err := slidegate.New(st, limit)
	if err != nil {
		return nil, err
	}
	return l.Allow, nil
}

// wasteTime is how long a row is measured: several windows.
func (r *run) wasteTime() time.Duration {
	if r.quick {
		return 300 * time.Millisecond
	}
	return 24 * time.Second
}
