package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

const (
	redisKeys   = 10_000
	redisRounds = 5  // at most, so that no run takes long
	fillCallers = 64 // that fill Redis before the timed rounds
	// redisQuota is more than the requests for any key in a round, and the largest quota of an exact log.
	redisQuota = maxLogged
)

// redisLoad is the load of the limiters: requests that are all admitted, or all refused.
type redisLoad struct {
	name  string
	quota int64
	share float64 // the share of the requests that is admitted
}

// redisLoads returns the loads. Every key is used once before the timed rounds, which uses up a quota of 1.
func redisLoads() []redisLoad {
	return []redisLoad{{"allowed", redisQuota, 1}, {"refused", 1, 0}}
}

// redisCell identifies the row and the table of a sample.
type redisCell struct {
	row, load string
	callers   int
}

// redisTables measures limiters that keep their state in Redis, all on one server.
func (r *run) redisTables() ([]*table, error) {
	rows := r.redisRows()
	settings := &table{title: "Redis: what is measured", columns: []string{"part", "settings"}, names: 2}
	if len(rows) == 1 {
		settings.note("Left out: -only names no limiter that is measured with Redis.")
		return []*table{settings}, nil
	}
	ctx := context.Background()
	server, err := openRedis(ctx)
	if errors.Is(err, errNoRedis) {
		settings.note("Left out: %v.", err)
		return []*table{settings}, nil
	}
	if err != nil {
		return nil, err
	}
	defer server.close()
	if err := r.redisSettings(ctx, settings, server); err != nil {
		return nil, err
	}
	tables := []*table{settings}
	for _, load := range redisLoads() {
		samples, err := r.timeRedis(ctx, server, rows, load)
		if err != nil {
			return nil, err
		}
		for _, callers := range r.callers {
			tables = append(tables, r.redisTable(rows, load, callers, samples))
		}
	}
	memory, err := r.redisMemory(ctx, server, rows)
	return append(tables, memory), err
}

// redisSettings lists the settings that the figures depend on.
func (r *run) redisSettings(ctx context.Context, t *table, server *redisServer) error {
	version, err := server.version(ctx)
	if err != nil {
		return err
	}
	origin := "started for this run: loopback, no persistence, otherwise its defaults"
	if server.process == nil {
		origin = "named by " + redisURLEnv
	}
	pool := server.pooled.Options()
	t.add("server", fmt.Sprintf("Redis %s, %s", version, origin))
	t.add("this program", fmt.Sprintf("GOMAXPROCS %d, on the processors that the server also uses", runtime.GOMAXPROCS(0)))
	t.add("load", fmt.Sprintf("%s keys, each as likely as any other; %s an hour, or 1 where all is refused", count(r.redisKeys()), count(redisQuota)))
	t.add(viaRueidis, "a new client for every figure; defaults (automatic pipelining, 4 connections), DisableCache")
	t.add(viaPool, fmt.Sprintf("a new client for every figure; defaults (PoolSize %d, RESP%d), MaxRetries -1", pool.PoolSize, pool.Protocol))
	t.add(viaPipeline, "the same client through its AutoPipeline, defaults; documented as experimental")
	return nil
}

// timeRedis times all rows with one load, the rounds interleaved, each on an empty database that is then filled.
func (r *run) timeRedis(ctx context.Context, server *redisServer, rows []redisRow, load redisLoad) (map[redisCell]remoteSamples, error) {
	all := newKeys(0, r.redisKeys())
	list := all.uniform(1<<18, 1)
	samples := map[redisCell]remoteSamples{}
	for round := range r.redisRounds() {
		r.logf("redis, %s: round %d of %d", load.name, round+1, r.redisRounds())
		for i := range rows {
			row := &rows[(i+round)%len(rows)]
			s := spec{quota: load.quota, window: quotaWindow}
			if _, err := openFilled(ctx, server, row, s, all); err != nil {
				return nil, fmt.Errorf("%s: %w", row.name, err)
			}
			for _, callers := range r.callers {
				one, err := timeConnected(ctx, server, row, s, list, callers, r.redisTime())
				if err != nil {
					return nil, fmt.Errorf("%s: %w", row.name, err)
				}
				at := redisCell{row.name, load.name, callers}
				samples[at] = append(samples[at], one)
			}
		}
	}
	return samples, nil
}

// timeConnected times a row through new clients.
func timeConnected(ctx context.Context, server *redisServer, row *redisRow, s spec, list keys, callers int, length time.Duration) (remoteSample, error) {
	if err := server.connect(); err != nil {
		return remoteSample{}, err
	}
	allow, err := row.open(server, s)
	if err != nil {
		return remoteSample{}, err
	}
	return timeCallers(ctx, server, allow, list, callers, length)
}

// openFilled empties the database, opens a limiter, and uses every key once.
func openFilled(ctx context.Context, server *redisServer, row *redisRow, s spec, all keys) (remoteAllow, error) {
	if err := server.empty(ctx); err != nil {
		return nil, err
	}
	allow, err := row.open(server, s)
	if err != nil {
		return nil, err
	}
	return allow, useEachKey(ctx, allow, all)
}

// useEachKey sends one request for every key to a limiter.
func useEachKey(ctx context.Context, allow remoteAllow, all keys) error {
	each := (all.n + fillCallers - 1) / fillCallers
	return newCrew(fillCallers).run(func(i int, c *caller) error {
		for at := i * each; at < min((i+1)*each, all.n); at++ {
			if err := c.send(ctx, allow, all.at(at)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *run) redisKeys() int {
	if r.quick {
		return min(r.keys, redisKeys/10)
	}
	return min(r.keys, redisKeys)
}

func (r *run) redisRounds() int { return min(r.rounds, redisRounds) }

// redisTime is how long one row is timed in a round.
func (r *run) redisTime() time.Duration {
	if r.quick {
		return 40 * time.Millisecond
	}
	return 1500 * time.Millisecond
}

// redisTable makes the table of one load and number of callers, and checks that the limiters decided as intended.
func (r *run) redisTable(rows []redisRow, load redisLoad, callers int, samples map[redisCell]remoteSamples) *table {
	t := &table{
		title: fmt.Sprintf("Redis: %s, callers: %d", load.name, callers),
		columns: []string{"limiter", "algorithm", "client", "decisions/s", "to peer", "to piped", "to INCR", "p50 µs", "p99 µs",
			"Redis CPU µs", "own CPU µs", "allocs", "spread", "goal"},
		names: 3,
	}
	best := redisBest(rows, func(row *redisRow) float64 {
		return samples[redisCell{row.name, load.name, callers}].median(rateOf)
	})
	for i := range rows {
		row := &rows[i]
		got := samples[redisCell{row.name, load.name, callers}]
		if got.share() != load.share {
			r.fail("Redis, %s: %s: %.4f of the requests were admitted, want %g", load.name, row.name, got.share(), load.share)
		}
		rate := got.median(rateOf)
		t.add(row.name, row.algorithm, row.client, fmt.Sprintf("%.0f", rate), ratio(rate, best.peer), ratio(rate, best.piped), ratio(rate, best.incr),
			fmt.Sprintf("%.0f", got.median(p50Micros)), fmt.Sprintf("%.0f", got.median(p99Micros)),
			fmt.Sprintf("%.1f", got.median(serverMicros)), fmt.Sprintf("%.1f", got.median(ownMicros)), allocations(got.median(allocs)),
			fmt.Sprintf("±%.0f%%", 50*got.spread()), row.goalResult(rate, best, callers))
	}
	t.note("Medians of %d interleaved rounds of %v. Ratios are of decisions per second, to the fastest peer used as documented, to the "+
		"fastest piped one, and to INCR; more is better. Goals refer to the first. CPU and allocations are per decision, in the "+
		"server and in this program.", r.redisRounds(), r.redisTime())
	return t
}

// redisRates holds the rates that a row is compared with; 0 if there is none.
type redisRates struct {
	peer, atomicPeer float64 // used as documented
	piped            float64 // peers over a client that their documentation does not mention, which may be faster
	incr             float64
}

func redisBest(rows []redisRow, rate func(*redisRow) float64) (best redisRates) {
	for i := range rows {
		row := &rows[i]
		switch {
		case row.name == rowIncrAlone:
			best.incr = rate(row)
		case row.peer() && row.client == viaPipeline:
			best.piped = max(best.piped, rate(row))
		case row.peer():
			best.peer = max(best.peer, rate(row))
			if row.atomic {
				best.atomicPeer = max(best.atomicPeer, rate(row))
			}
		}
	}
	return best
}

// goalResult returns the goals for a number of callers, and whether a row reaches them.
func (row *redisRow) goalResult(rate float64, best redisRates, callers int) string {
	var texts []string
	goal := func(text string, factor, reference float64) {
		switch {
		case reference == 0: // -only left it out
		case rate >= factor*reference:
			texts = append(texts, fmt.Sprintf("%gx %s: met", factor, text))
		default:
			texts = append(texts, fmt.Sprintf("%gx %s: missed", factor, text))
		}
	}
	if !row.goals {
		return ""
	}
	switch callers {
	case 1:
		goal("atomic peer", 1, best.atomicPeer)
	case 64:
		goal("peer", 1.5, best.peer)
		goal("INCR", 0.5, best.incr)
	case 256:
		goal("peer", 3, best.peer)
	}
	return strings.Join(texts, ", ")
}
