package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/kvstore"
)

const (
	kvKeys    = 10_000
	kvCallers = 64
	kvRounds  = 5 // at most

	kvAttempts = 5 // to time a row

	kvGoal      = 10 // times the decisions of one caller's swap loop
	kvLeaseGoal = 20 // times those without leases
)

// The limiters in the tables of key-value engines.
const (
	rowSwapLoop = "swap loop"
	rowKV       = "slidegate"
	rowKVLease  = "slidegate, leases"
)

// kvLoad is the load of the limiters.
type kvLoad struct {
	name    string
	all     keys // each was used once before the timed rounds
	list    keys // the keys of the requests, in order
	callers int
}

// kvRow is a limiter over a server, with a load.
type kvRow struct {
	server  *kvServer
	limiter string
	load    *kvLoad
}

// kvSample holds the figures of one timed round of a row.
type kvSample struct {
	remoteSample
	trips float64 // per decision
}

type kvSamples []kvSample

// kvTables measures key-value engines: one key compared with the loop that programs use today, and many keys compared with the
// other stores.
func (r *run) kvTables() ([]*table, error) {
	ctx := context.Background()
	left := &table{title: "Key-value engines: left out", columns: []string{"server", "why"}, names: 2}
	servers, err := r.openKVServers(ctx, left)
	defer func() {
		for _, s := range servers {
			s.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	all := newKeys(0, r.kvKeys())
	one := newKeys(0, 1)
	alone := &kvLoad{"one key", one, one, 1}
	hot := &kvLoad{"one key", one, one, kvCallers}
	single := &kvLoad{count(all.n) + " keys", all, all.uniform(1<<17, 2), 1}
	many := &kvLoad{count(all.n) + " keys", all, all.uniform(1<<17, 1), kvCallers}
	var rows []kvRow
	for _, s := range servers {
		if s.kv != nil {
			rows = append(rows, kvRow{s, rowSwapLoop, alone}, kvRow{s, rowSwapLoop, hot})
		}
		rows = append(rows, kvRow{s, rowKV, alone}, kvRow{s, rowKV, hot}, kvRow{s, rowKV, single}, kvRow{s, rowKV, many})
		if _, inProcess := s.cpuReporter.(noServer); !inProcess { // there, leases save nothing
			rows = append(rows, kvRow{s, rowKVLease, hot})
		}
	}
	samples, err := r.timeKV(ctx, rows)
	if err != nil {
		return nil, err
	}
	tables := []*table{r.kvTable(rows, samples, alone, hot), r.kvTable(rows, samples, single, many)}
	if len(left.rows) > 0 {
		tables = append(tables, left)
	}
	return tables, nil
}

// timeKV times all rows, the rounds interleaved.
func (r *run) timeKV(ctx context.Context, rows []kvRow) (map[kvRow]kvSamples, error) {
	samples := map[kvRow]kvSamples{}
	for round := range r.kvRounds() {
		r.logf("kv: round %d of %d", round+1, r.kvRounds())
		for i := range rows {
			row := rows[(i+round*7)%len(rows)]
			one, err := r.timeKVRow(ctx, &row)
			for range kvAttempts - 1 {
				if err != nil { // on a busy machine, a cluster may have to elect a leader
					r.logf("kv: %s, %s: again, after: %v", row.server.name, row.limiter, err)
					one, err = r.timeKVRow(ctx, &row)
				}
			}
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", row.server.name, row.limiter, err)
			}
			samples[row] = append(samples[row], one)
		}
	}
	return samples, nil
}

// timeKVRow times a row after a warm-up, on a server that has no other keys.
func (r *run) timeKVRow(ctx context.Context, row *kvRow) (s kvSample, err error) {
	allow, trips, end, err := row.open(ctx)
	if err != nil {
		return s, err
	}
	defer end()
	if err := useEachKey(ctx, allow, row.load.all); err != nil {
		return s, err
	}
	if _, err = timeCallers(ctx, row.server, allow, row.load.list, row.load.callers, r.kvTime()/3); err != nil {
		return s, err
	}
	before := trips.Load()
	if s.remoteSample, err = timeCallers(ctx, row.server, allow, row.load.list, row.load.callers, r.kvTime()); err != nil {
		return s, err
	}
	s.trips = float64(trips.Load()-before) / float64(s.requests)
	return s, nil
}

// open returns the limiter of a row, a counter of its round trips, and a function that closes it.
func (row *kvRow) open(ctx context.Context) (allow remoteAllow, trips *atomic.Int64, end func(), err error) {
	if row.limiter == rowSwapLoop {
		loop, end, err := row.server.kv.swapLoop(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		trips = &atomic.Int64{}
		return loop.allow(spec{quota: leaseQuota, window: time.Minute}, trips), trips, end, nil
	}
	st, trips, end, err := row.server.open(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	if row.limiter == rowKVLease {
		leases := lease.New(st, lease.Options{})
		below := end
		end = func() {
			_ = leases.Close(ctx) // leased units then expire
			below()
		}
		st = leases
	}
	allow, err = allowOne(st, onePart(row.limiter == rowKVLease))
	return allow, trips, end, err
}

// countedEngine counts the round trips of an engine.
type countedEngine struct {
	kvstore.Engine
	trips *atomic.Int64
}

// Get counts a round trip and makes it.
func (e countedEngine) Get(ctx context.Context, name string) ([]byte, uint64, error) {
	e.trips.Add(1)
	return e.Engine.Get(ctx, name)
}

// Swap counts a round trip and makes it.
func (e countedEngine) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	e.trips.Add(1)
	return e.Engine.Swap(ctx, name, value, revision, keep)
}

// kvTable makes the table of some loads.
func (r *run) kvTable(rows []kvRow, samples map[kvRow]kvSamples, loads ...*kvLoad) *table {
	t := &table{
		title: "Stores: " + loads[0].name,
		columns: []string{"limiter", "server", "callers", "decisions/s", "to swap loop", "round trips", "p50 µs", "p99 µs", "server CPU µs", "own CPU µs",
			"allocs", "spread", "goal"},
		names: 2,
	}
	for _, row := range rows {
		if row.load != loads[0] && row.load != loads[1] {
			continue
		}
		got := samples[row]
		remote := got.remote()
		loop := samples[kvRow{row.server, rowSwapLoop, loads[0]}] // of one caller
		if remote.share() != 1 {
			r.fail("%s: %s, %s: %.4f of the requests were admitted, want 1", t.title, row.server.name, row.limiter, remote.share())
		}
		t.add(row.limiter, row.server.name, fmt.Sprint(row.load.callers), fmt.Sprintf("%.0f", remote.median(rateOf)), times(remote.ratioTo(loop.remote())),
			fmt.Sprintf("%.2f", got.trips()), fmt.Sprintf("%.0f", remote.median(p50Micros)), fmt.Sprintf("%.0f", remote.median(p99Micros)),
			fmt.Sprintf("%.1f", remote.median(serverMicros)), fmt.Sprintf("%.1f", remote.median(ownMicros)), allocations(remote.median(allocs)),
			fmt.Sprintf("±%.0f%%", 50*remote.spread()), row.goalResult(remote, loop.remote(), samples[kvRow{row.server, rowKV, row.load}].remote()))
	}
	t.note("Medians of %d interleaved rounds of %v, each on a server that only has these keys. The swap loop is the limiter that programs usually write over the client of a "+
		"key-value engine; the ratio is to the loop of one caller, the median over the rounds. Round trips, CPU and allocations are per "+
		"decision. Redis and PostgreSQL are under coalesce, as in the service; a key-value engine needs no such layer. The three servers of "+
		"a NATS cluster are in one process.", r.kvRounds(), r.kvTime())
	return t
}

// goalResult returns the goals of a row, and whether it reaches them.
func (row *kvRow) goalResult(got, loop, without remoteSamples) string {
	switch {
	case row.server.kv == nil || row.load.callers == 1 || row.load.list.n > 1:
		return ""
	case row.limiter == rowKV:
		return goal(fmt.Sprintf("%dx swap loop", kvGoal), got.ratioTo(loop) >= kvGoal)
	case row.limiter == rowKVLease:
		return goal(fmt.Sprintf("%dx without leases", kvLeaseGoal), got.ratioTo(without) >= kvLeaseGoal)
	}
	return ""
}

func (s kvSamples) remote() (all remoteSamples) {
	for i := range s {
		all = append(all, s[i].remoteSample)
	}
	return all
}

func (s kvSamples) trips() float64 {
	var all []float64
	for i := range s {
		all = append(all, s[i].trips)
	}
	return median(all)
}

func (r *run) kvKeys() int {
	if r.quick {
		return min(r.keys, kvKeys/10)
	}
	return min(r.keys, kvKeys)
}

func (r *run) kvRounds() int { return min(r.rounds, kvRounds) }

// kvTime is how long one row is timed in a round.
func (r *run) kvTime() time.Duration {
	if r.quick {
		return 40 * time.Millisecond
	}
	return 1200 * time.Millisecond
}
