package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

const (
	leaseCallers = 64
	leaseUsers   = 1000
	leaseKeys    = 10_000
	leaseRounds  = 7 // at most
	// leaseQuota is more than all callers can spend in a window, so an eighth of it is always left.
	leaseQuota = 1_000_000_000_000
)

// The rows of the tables.
const (
	rowCoalesce = "slidegate, coalesce"
	rowLease    = "slidegate, lease over coalesce"
)

// leaseLoad is what the two rows are asked for.
type leaseLoad struct {
	name  string
	goal  float64 // decisions a second, as a multiple of those of coalesce
	hot   bool    // the goals about one busy key apply
	list  keys
	allow func(st store.Store, leased bool) (remoteAllow, error)
}

// leaseTables measures how fast leases are, beside coalesce over the same store.
func (r *run) leaseTables() ([]*table, error) {
	ctx := context.Background()
	left := &table{title: "Leases", columns: []string{"limiter"}}
	one := leaseLoad{name: "one key", goal: 20, hot: true, list: newKeys(0, 1), allow: allowOne}
	redis, err := leaseRedis(ctx, left)
	if errors.Is(err, errLeftOut) {
		return []*table{left}, nil
	}
	if err != nil {
		return nil, err
	}
	defer redis.close()
	var tables []*table
	for _, load := range []leaseLoad{
		one,
		{name: fmt.Sprintf("%s keys, uniform", count(leaseKeys)), goal: 0.9, list: newKeys(0, leaseKeys).uniform(1<<18, 1), allow: allowOne},
		{
			name: fmt.Sprintf("a user's limit and a global one, %s users by zipf", count(leaseUsers)), goal: 10,
			list: newKeys(0, leaseUsers).zipf(1<<18, 1), allow: allowUserAndGlobal,
		},
	} {
		t, err := r.leaseTable(ctx, redis, &load)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	for _, make := range []func(context.Context, *leaseServer) (*table, error){r.lastEighthTable, r.bundleShareTable, r.leaseAllocsTable} {
		t, err := make(ctx, redis)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	pg, err := r.leasePG(ctx, left)
	if errors.Is(err, errLeftOut) {
		return append(tables, left), nil
	}
	if err != nil {
		return nil, err
	}
	defer pg.close()
	t, err := r.leaseTable(ctx, pg, &one)
	return append(tables, t), err
}

// leasableLimit is the limit of the tables: its name, and whether it is leased.
func leasableLimit(name string, leased bool) slidegate.Limit {
	return slidegate.Limit{Name: name, Quota: leaseQuota, Window: time.Minute, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: leased}
}

// allowOne asks for a key under one limit.
func allowOne(st store.Store, leased bool) (remoteAllow, error) {
	l, err := slidegate.New(st, leasableLimit("one", leased))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key)
		return d.Allowed, err
	}, nil
}

// allowUserAndGlobal asks for a user's limit and for a global one in the same request.
func allowUserAndGlobal(st store.Store, leased bool) (remoteAllow, error) {
	return allowClaims(st, leasableLimit("user", leased), leasableLimit("global", leased))
}

// allowClaims asks for a key under one limit, and for all keys together under another one.
func allowClaims(st store.Store, user, global slidegate.Limit) (remoteAllow, error) {
	l, err := slidegate.NewPerCall(st, "")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.For(slidegate.Claim{Limit: user, Key: key}, slidegate.Claim{Limit: global}).Allow(ctx)
		return d.Allowed, err
	}, nil
}

// leaseSample is what one timed round of a row gave.
type leaseSample struct {
	remoteSample
	calls float64 // to the server, a second
}

// leaseTable times the two rows, the rounds interleaved.
func (r *run) leaseTable(ctx context.Context, server *leaseServer, load *leaseLoad) (*table, error) {
	samples := map[bool][]leaseSample{}
	for round := range r.leaseRounds() {
		r.say("lease, %s, %s: round %d of %d", server.name, load.name, round+1, r.leaseRounds())
		for i := range 2 {
			leased := (i+round)%2 == 0
			s, err := r.timeLease(ctx, server, load, leased)
			if err != nil {
				return nil, err
			}
			samples[leased] = append(samples[leased], s)
		}
	}
	t := &table{
		title: fmt.Sprintf("Leases over %s: %s, callers: %d", server.name, load.name, leaseCallers),
		columns: []string{"limiter", "decisions/s", "to coalesce", "p50 µs", "p99 µs", "calls/s", "server CPU µs", "own CPU µs", "allocs",
			"spread", "goal"},
	}
	for _, leased := range []bool{false, true} {
		r.addLeaseRow(t, load, leased, samples)
	}
	t.note("Medians of %d interleaved rounds of %v, after %v that are not timed. The ratio is the median of those within each round. CPU and "+
		"allocations are a decision's. Calls are those to the server, from one process.", r.leaseRounds(), r.leaseTime(), r.leaseWarmUp())
	return t, nil
}

// timeLease times a row on a server without state.
func (r *run) timeLease(ctx context.Context, server *leaseServer, load *leaseLoad, leased bool) (s leaseSample, err error) {
	if err = server.fresh(ctx); err != nil {
		return s, err
	}
	stack, err := server.stack(leased)
	if err != nil {
		return s, err
	}
	allow, err := load.allow(stack.top, leased)
	if err != nil {
		return s, err
	}
	if _, err = timeCallers(ctx, server, allow, load.list, leaseCallers, r.leaseWarmUp()); err != nil {
		return s, err
	}
	before := stack.calls.n.Load()
	if s.remoteSample, err = timeCallers(ctx, server, allow, load.list, leaseCallers, r.leaseTime()); err != nil {
		return s, err
	}
	s.calls = float64(stack.calls.n.Load()-before) / r.leaseTime().Seconds()
	return s, stack.close(ctx)
}

func (r *run) addLeaseRow(t *table, load *leaseLoad, leased bool, samples map[bool][]leaseSample) {
	var got remoteSamples
	var calls, ratios []float64
	for i, s := range samples[leased] {
		got = append(got, s.remoteSample)
		calls = append(calls, s.calls)
		ratios = append(ratios, s.perSecond/max(samples[false][i].perSecond, 1e-9))
	}
	name, verdict := rowCoalesce, ""
	if leased {
		name = rowLease
		verdict = goal(fmt.Sprintf("%gx", load.goal), median(ratios) >= load.goal)
		if load.hot {
			verdict += ", " + goal("p99 1 µs", got.median(mostMicros) <= 1) + ", " + goal("25 calls/s", median(calls) <= 25)
		}
	}
	if got.share() != 1 {
		r.fail("%s: %s: %.4f of the requests were admitted, not 1", t.title, name, got.share())
	}
	t.add(name, fmt.Sprintf("%.0f", got.median(rateOf)), fmt.Sprintf("%.2fx", median(ratios)), fmt.Sprintf("%.2f", got.median(halfMicros)),
		fmt.Sprintf("%.2f", got.median(mostMicros)), fmt.Sprintf("%.0f", median(calls)), fmt.Sprintf("%.2f", got.median(serverMicros)),
		fmt.Sprintf("%.2f", got.median(ownMicros)), allocations(got.median(allocs)), fmt.Sprintf("±%.0f%%", 50*got.spread()), verdict)
}

// goal says whether one was reached.
func goal(text string, met bool) string {
	if met {
		return text + ": met"
	}
	return text + ": missed"
}

// lastEighthTable counts the calls that it takes to use up the last eighth of a quota.
func (r *run) lastEighthTable(ctx context.Context, server *leaseServer) (*table, error) {
	t := &table{
		title:   fmt.Sprintf("Leases over %s: calls for the last eighth of a quota, one key, callers: %d", server.name, leaseCallers),
		columns: []string{"limiter", "quota", "calls", "most", "10 ln(quota)", "goal"},
	}
	for _, quota := range []int64{1000, 100_000, 10_000_000} {
		if r.quick && quota > 100_000 {
			continue
		}
		var calls []float64
		for range r.leaseRounds() {
			n, err := callsForLastEighth(ctx, server, quota)
			if err != nil {
				return nil, err
			}
			calls = append(calls, float64(n))
		}
		bound := 10 * math.Log(float64(quota))
		most := slices.Max(calls)
		t.add(rowLease, fmt.Sprint(quota), fmt.Sprintf("%.0f", median(calls)), fmt.Sprintf("%.0f", most), fmt.Sprintf("%.0f", bound),
			goal("bound", most <= bound))
	}
	t.note("Median and most of %d rounds. All callers ask as fast as they can, for a quota per hour that is whole in the beginning.", r.leaseRounds())
	return t, nil
}

// callsForLastEighth lets callers use up a quota, and returns how many calls to the server the last eighth took.
func callsForLastEighth(ctx context.Context, server *leaseServer, quota int64) (int64, error) {
	if err := server.fresh(ctx); err != nil {
		return 0, err
	}
	stack, err := server.stack(true)
	if err != nil {
		return 0, err
	}
	l, err := slidegate.New(stack.top, slidegate.Limit{Name: "last eighth", Quota: quota, Window: time.Hour, Algorithm: slidegate.FixedWindow, Lease: true})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // far more than it takes, also at the end of an hour
	defer cancel()
	var admitted, from, to atomic.Int64
	err = newCrew(leaseCallers).run(func(int, *caller) error {
		for admitted.Load() < quota {
			d, err := l.Allow(ctx, "key")
			if err != nil {
				return err
			}
			if !d.Allowed {
				runtime.Gosched()
				continue
			}
			switch admitted.Add(1) {
			case quota - quota/8:
				from.Store(stack.calls.n.Load())
			case quota:
				to.Store(stack.calls.n.Load())
			}
		}
		return nil
	})
	return to.Load() - from.Load(), errors.Join(err, stack.close(ctx))
}

func (r *run) leaseRounds() int { return min(r.rounds, leaseRounds) }

// leaseTime is how long one row is timed in a round.
func (r *run) leaseTime() time.Duration {
	if r.quick {
		return 100 * time.Millisecond
	}
	return 1500 * time.Millisecond
}

// leaseWarmUp is how long a row is asked before it is timed, so that busy keys are known to be busy.
func (r *run) leaseWarmUp() time.Duration {
	if r.quick {
		return 100 * time.Millisecond
	}
	return 500 * time.Millisecond
}
