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
	leaseRounds  = 5 // at most
	// leaseQuota is more than all callers can spend in a window, so at least an eighth of it is always left.
	leaseQuota = 1_000_000_000_000
)

// The rows of the tables.
const (
	rowCoalesce = "slidegate, coalesce"
	rowLease    = "slidegate, lease over coalesce"
)

// leaseLoad is the load of the rows.
type leaseLoad struct {
	name  string
	goal  float64 // decisions per second, relative to coalesce
	hot   bool    // the goals for one busy key apply
	list  keys
	allow func(st store.Store, limit slidegate.Limit) (remoteAllow, error)
}

// leaseRow is a row of the tables.
type leaseRow struct {
	parts  string
	limit  slidegate.Limit
	leased bool
}

// leaseRows returns rows for three limits, each without and with leases: the default, the limit that is cheapest to decide in the
// store, and a named one that counts as the default does.
func leaseRows() (rows []leaseRow) {
	for _, leased := range []bool{false, true} {
		rows = append(rows, leaseRow{"default", byDefault(leased), leased}, leaseRow{"one part", onePart(leased), leased},
			leaseRow{"60 parts, whole", sixtyParts(leased), leased})
	}
	return rows
}

func byDefault(leased bool) slidegate.Limit {
	return slidegate.Limit{Quota: leaseQuota, Window: time.Minute, Lease: leased}
}

func onePart(leased bool) slidegate.Limit {
	return slidegate.Limit{Quota: leaseQuota, Window: time.Minute, Algorithm: slidegate.SlidingWindow, Lease: leased}
}

func sixtyParts(leased bool) slidegate.Limit {
	return slidegate.Limit{Quota: leaseQuota, Window: time.Minute, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: leased}
}

func (row *leaseRow) name() string {
	if row.leased {
		return rowLease
	}
	return rowCoalesce
}

// leaseTables measures leases, compared with coalesce over the same store.
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

// allowOne returns a function that decides a key under one limit.
func allowOne(st store.Store, limit slidegate.Limit) (remoteAllow, error) {
	limit.Name = "one"
	l, err := slidegate.New(st, limit)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key)
		return d.Allowed, err
	}, nil
}

// allowUserAndGlobal returns a function that decides a user's limit and a global one in the same request.
func allowUserAndGlobal(st store.Store, limit slidegate.Limit) (remoteAllow, error) {
	user, global := limit, limit
	user.Name, global.Name = "user", "global"
	decide, err := claimsDecider(st, user, global)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := decide(ctx, key)
		return d.Allowed, err
	}, nil
}

// claimsDecider returns a function that decides a key under one limit, and all keys together under another one.
func claimsDecider(st store.Store, user, global slidegate.Limit) (decideFunc, error) {
	l, err := slidegate.New(st)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (slidegate.Decision, error) {
		return l.For(slidegate.Claim{Limit: user, Key: key}, slidegate.Claim{Limit: global}).Allow(ctx)
	}, nil
}

// leaseSample holds the figures of one timed round of a row.
type leaseSample struct {
	remoteSample
	calls float64 // to the server, per second
}

// leaseTable times all rows, the rounds interleaved.
func (r *run) leaseTable(ctx context.Context, server *leaseServer, load *leaseLoad) (*table, error) {
	rows := leaseRows()
	samples := make([][]leaseSample, len(rows))
	for round := range r.leaseRounds() {
		r.logf("lease, %s, %s: round %d of %d", server.name, load.name, round+1, r.leaseRounds())
		for i := range rows {
			at := (i + round) % len(rows)
			s, err := r.timeLease(ctx, server, load, &rows[at])
			if err != nil {
				return nil, err
			}
			samples[at] = append(samples[at], s)
		}
	}
	t := &table{
		title: fmt.Sprintf("Leases over %s: %s, callers: %d", server.name, load.name, leaseCallers),
		columns: []string{"limiter", "window", "decisions/s", "to coalesce", "p50 µs", "p99 µs", "calls/s", "server CPU µs", "own CPU µs", "allocs",
			"spread", "goal"},
		names: 2,
	}
	for i := range rows {
		r.addLeaseRow(t, load, &rows[i], samples[i], samples[i%(len(rows)/2)])
	}
	t.note("Medians of %d interleaved rounds of %v, after %v that are not timed. The ratio, to coalesce with the same window, is the median over the "+
		"rounds. CPU and allocations are per decision. Calls are those to the server, from one process.",
		r.leaseRounds(), r.leaseTime(), r.leaseWarmUp())
	return t, nil
}

// timeLease times a row on a server without state.
func (r *run) timeLease(ctx context.Context, server *leaseServer, load *leaseLoad, row *leaseRow) (s leaseSample, err error) {
	if err = server.fresh(ctx); err != nil {
		return s, err
	}
	stack, err := server.stack(row.leased)
	if err != nil {
		return s, err
	}
	allow, err := load.allow(stack.top, row.limit)
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

// addLeaseRow adds a row to the table, with the samples of coalesce to compare it with.
func (r *run) addLeaseRow(t *table, load *leaseLoad, row *leaseRow, samples, coalesced []leaseSample) {
	var got remoteSamples
	var calls, ratios []float64
	for i, s := range samples {
		got = append(got, s.remoteSample)
		calls = append(calls, s.calls)
		ratios = append(ratios, s.perSecond/max(coalesced[i].perSecond, 1e-9))
	}
	result := ""
	if row.leased {
		result = goal(fmt.Sprintf("%gx", load.goal), median(ratios) >= load.goal)
		if load.hot {
			result += ", " + goal("p99 1 µs", got.median(p99Micros) <= 1) + ", " + goal("25 calls/s", median(calls) <= 25)
		}
	}
	if got.share() != 1 {
		r.fail("%s: %s, %s: %.4f of the requests were admitted, want 1", t.title, row.name(), row.parts, got.share())
	}
	t.add(row.name(), row.parts, fmt.Sprintf("%.0f", got.median(rateOf)), fmt.Sprintf("%.2fx", median(ratios)),
		fmt.Sprintf("%.2f", got.median(p50Micros)), fmt.Sprintf("%.2f", got.median(p99Micros)), fmt.Sprintf("%.0f", median(calls)),
		fmt.Sprintf("%.2f", got.median(serverMicros)), fmt.Sprintf("%.2f", got.median(ownMicros)), allocations(got.median(allocs)),
		fmt.Sprintf("±%.0f%%", 50*got.spread()), result)
}

// goal formats a goal, and whether it was reached.
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
	t.note("Median and most of %d rounds. All callers send requests as fast as they can, for a quota per hour that is unused at the start.", r.leaseRounds())
	return t, nil
}

// callsForLastEighth runs callers until a quota is used up, and returns how many calls to the server the last eighth took.
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
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // far more than it takes, even at the end of an hour
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

// leaseTime returns how long one row is timed in a round.
func (r *run) leaseTime() time.Duration {
	if r.quick {
		return 50 * time.Millisecond
	}
	return 1200 * time.Millisecond // longer than a part of the window
}

// leaseWarmUp returns how long a row is loaded before it is timed, so that busy keys are leased.
func (r *run) leaseWarmUp() time.Duration {
	if r.quick {
		return 50 * time.Millisecond
	}
	return 300 * time.Millisecond
}
