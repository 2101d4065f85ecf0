package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The limits of each user and of all users together. The load is 1.5 times what the global limit admits; the busiest
// users send several times what their limit admits.
var (
	bundleUser   = slidegate.Limit{Name: "user", Quota: 1000, Window: 2 * time.Second, Segments: 20, Overlap: slidegate.OverlapWhole, Lease: true}
	bundleGlobal = slidegate.Limit{Name: "global", Quota: 20_000, Window: 2 * time.Second, Segments: 20, Overlap: slidegate.OverlapWhole, Lease: true}
)

// bundleShareTable measures how many requests are admitted under a user's limit and a global one.
func (r *run) bundleShareTable(ctx context.Context, server *leaseServer) (*table, error) {
	t := &table{
		title:   fmt.Sprintf("Leases over %s: a user's limit and a global one, %s users by zipf, what is admitted", server.name, count(leaseUsers)),
		columns: []string{"limiter", "processes", "requests", "exact", "leased", "share", "from leases", "calls/s", "goal"},
	}
	const minShare = 0.97
	for _, processes := range []int{1, leaseProcesses} {
		r.logf("lease: what is admitted, %d processes", processes)
		s, calls, err := r.bundleShare(ctx, server, processes)
		if err != nil {
			return nil, err
		}
		t.add(rowLease, fmt.Sprint(processes), fmt.Sprint(s.requests), fmt.Sprint(s.exact), fmt.Sprint(s.leased), percent(s.share()),
			percent(float64(s.fromLeases)/float64(max(s.leased, 1))), fmt.Sprintf("%.0f", calls), goal(percent(minShare), s.share() >= minShare))
	}
	t.note("%s for each user, %s for all, and a load of %g times the latter, for %v. The share is of what one exact store in memory "+
		"admitted, which received the same requests at the same time. Calls are those of one process to the server.", bundleUser, bundleGlobal, overload, r.bundleTime())
	return t, nil
}

// bundleShare sends the same requests to a number of processes and to one exact store.
func (r *run) bundleShare(ctx context.Context, server *leaseServer, processes int) (s trafficSample, calls float64, err error) {
	if err = server.fresh(ctx); err != nil {
		return s, 0, err
	}
	stacks, err := server.stacks(processes)
	if err != nil {
		return s, 0, err
	}
	exact, err := exactStore()
	if err != nil {
		return s, 0, err
	}
	each := overload * float64(bundleGlobal.Quota) / bundleGlobal.Window.Seconds() / float64(processes*callersEach)
	f := &traffic{
		keys:     newKeys(0, leaseUsers).zipf(1<<18, 1),
		arrivals: func(random *rand.Rand, start time.Time) arrivals { return evenly(random, start, each) },
	}
	if f.exact, err = claimsDecider(exact, bundleUser, bundleGlobal); err != nil {
		return s, 0, err
	}
	for _, stack := range stacks {
		decide, err := claimsDecider(stack.top, bundleUser, bundleGlobal)
		if err != nil {
			return s, 0, err
		}
		f.leased = append(f.leased, decide)
	}
	s, err = f.run(ctx, r.bundleTime())
	for _, stack := range stacks {
		calls += float64(stack.calls.n.Load()) / float64(processes) / r.bundleTime().Seconds()
	}
	return s, calls, errors.Join(err, closeStacks(ctx, stacks))
}

// bundleTime returns how long the traffic lasts.
func (r *run) bundleTime() time.Duration {
	if r.quick {
		return 300 * time.Millisecond
	}
	return 12 * time.Second
}

// leaseAllocsTable measures what a decision from leases allocates, with one caller.
func (r *run) leaseAllocsTable(ctx context.Context, server *leaseServer) (*table, error) {
	t := &table{
		title:   fmt.Sprintf("Leases over %s: allocations of a decision from leases, callers: 1", server.name),
		columns: []string{"limiter", "call", "ns", "allocs", "from leases", "goal"}, names: 2,
	}
	if err := server.fresh(ctx); err != nil {
		return nil, err
	}
	stack, err := server.stack(true)
	if err != nil {
		return nil, err
	}
	limit, whole := sixtyParts(true), onePart(true)
	limit.Name, whole.Name = "user", "global"
	l, err := slidegate.New(stack.top, limit)
	if err != nil {
		return nil, err
	}
	global, err := adapter.Bind("", whole)
	if err != nil {
		return nil, err
	}
	charges := []store.Charge{{Limit: adapter.Bound(l)[0], Key: "key", Cost: 1}, {Limit: global, Cost: 1}}
	batch := []store.Request{{Op: rule.Take, Charges: charges, Answers: make([]rule.Answer, 2)}}
	for _, c := range []struct {
		by     string
		decide func() (leased bool, err error)
	}{
		{"Limiter.Allow, one limit", func() (bool, error) {
			d, err := l.Allow(ctx, "key")
			return d.Allowed && d.Flags&rule.Leased != 0, err
		}},
		{"Store.Apply, two limits", func() (bool, error) {
			err := stack.top.Apply(ctx, batch)
			a := batch[0].Answers
			return a[0].Allowed && a[0].Flags&rule.Leased != 0 && a[1].Allowed && a[1].Flags&rule.Leased != 0, err
		}},
	} {
		ns, allocs, share, err := r.timeAlone(c.decide)
		if err != nil {
			return nil, err
		}
		t.add(rowLease, c.by, nanos(ns), allocations(allocs), percent(share), goal("0", allocs < 0.005))
	}
	t.note("Processor time of this program, and all that it allocates, divided by the decisions, including calls for leases. Limiter.For " +
		"allocates its result, over every store.")
	return t, stack.close(ctx)
}

// timeAlone sends requests from one goroutine on one processor, after a warm-up.
func (r *run) timeAlone(decide func() (bool, error)) (ns, allocs, share float64, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var requests, leased int64
	loop := func(length time.Duration) error {
		requests, leased = 0, 0
		for start := time.Now(); time.Since(start) < length; {
			for range 100 {
				ok, err := decide()
				if err != nil {
					return err
				}
				if ok {
					leased++
				}
			}
			requests += 100
		}
		return nil
	}
	if err = loop(r.leaseWarmUp()); err != nil {
		return 0, 0, 0, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	watch := startWatch(1)
	err = loop(r.leaseTime())
	elapsed := watch.elapsed()
	runtime.ReadMemStats(&after)
	n := float64(max(requests, 1))
	return float64(elapsed) / n, float64(after.Mallocs-before.Mallocs) / n, float64(leased) / n, err
}
