package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/pgtest"
)

// way is a way to count in a store on a server: a row of the tables that compare the algorithms.
type way struct {
	name, algorithm string
	limit           slidegate.Limit
	full            bool // its keys have used up their quota, evenly over the window, so that each request needs a unit that has just been freed
	peer            func(spec) (remoteAllow, error)
}

const (
	waysWindow = 12 * time.Second // so that a key is used in several parts of it in the timed rounds
	waysQuota  = 100
	waysRounds = 15 // at most
)

// slidegateWays returns Slidegate's rows. The others are compared with the first.
func slidegateWays() []way {
	return []way{
		{name: "slidegate, window of one part", algorithm: "sliding window", limit: slidegate.Limit{Algorithm: slidegate.SlidingWindow}},
		{name: rowDefault, algorithm: "the default"},
		{name: rowSix, algorithm: "sliding window", limit: inParts(6)},
		{name: rowSixty, algorithm: "sliding window", limit: inParts(60)},
		{name: rowBucket, algorithm: "token bucket", limit: slidegate.Limit{Algorithm: slidegate.TokenBucket}},
		{name: "slidegate, log, young", algorithm: "exact log", limit: slidegate.Limit{Algorithm: slidegate.SlidingLog}},
		{name: "slidegate, log, full", algorithm: "exact log", limit: slidegate.Limit{Algorithm: slidegate.SlidingLog}, full: true},
	}
}

// waysBench compares ways to count in one store.
type waysBench struct {
	*run
	title   string
	server  cpuReporter
	connect func() error                // makes new clients for the next figure
	open    func() (store.Store, error) // Slidegate's store, over the newest clients
	ways    []way
	all     keys // each was used once before the timed rounds
	list    keys // the keys of the requests, in order
	passes  int  // number of passes that fill a full log, followed by a pause as long as one pass
	cost    int64
	slot    time.Duration // how long a pass may take
	live    []float64     // units of a key of the full log, before and after each timed round
}

// redisWaysTables compares the ways to count in Redis, including ulule's.
func (r *run) redisWaysTables() ([]*table, error) {
	ctx := context.Background()
	server, err := openRedis(ctx)
	if errors.Is(err, errNoRedis) {
		t := &table{title: "Redis: ways to count", columns: []string{"limiter"}}
		t.note("Left out: %v.", err)
		return []*table{t}, nil
	}
	if err != nil {
		return nil, err
	}
	defer server.close()
	b := r.newWaysBench("Redis", server, server.connect, func() (store.Store, error) {
		return redisstore.New(server.rueidis, redisstore.Options{})
	})
	b.addPeer("ulule", way{name: "ulule/limiter", algorithm: "fixed window", peer: func(s spec) (remoteAllow, error) {
		return openUluleRedis(server, s)
	}})
	return b.tables(ctx)
}

// pgWaysTables compares the ways to count in PostgreSQL, and the transaction that limiters there use today.
func (r *run) pgWaysTables() ([]*table, error) {
	ctx := context.Background()
	server, err := openPG(ctx, r.conns)
	if errors.Is(err, pgtest.ErrNoServer) {
		t := &table{title: "PostgreSQL: ways to count", columns: []string{"limiter"}}
		t.note("Left out: postgres is missing, and %s is not set. Install the package postgresql.", pgURLEnv)
		return []*table{t}, nil
	}
	if err != nil {
		return nil, err
	}
	defer server.close()
	b := r.newWaysBench("PostgreSQL", server, func() error { return nil }, func() (store.Store, error) {
		return pgstore.New(server.pool, slidegateOptions(true))
	})
	b.passes, b.cost = 8, 12 // fewer, since they take longer here
	b.addPeer("pg-transaction", way{name: rowTransaction, algorithm: "sliding window", peer: func(s spec) (remoteAllow, error) {
		return openTransaction(server, s, true)
	}})
	return b.tables(ctx)
}

func (r *run) newWaysBench(title string, server cpuReporter, connect func() error, open func() (store.Store, error)) *waysBench {
	b := &waysBench{run: r, title: title, server: server, connect: connect, open: open, all: newKeys(0, r.waysKeys()), passes: 24, cost: 4}
	b.list = b.all.uniform(1<<18, 1)
	if r.measuresOwn() {
		b.ways = slidegateWays()
	}
	return b
}

// addPeer adds a row of another library, unless -only leaves it out.
func (b *waysBench) addPeer(family string, w way) {
	if len(b.only) == 0 || slices.Contains(b.only, family) {
		b.ways = append(b.ways, w)
	}
}

// wayLimiter is the open limiter of a row.
type wayLimiter struct {
	allow   remoteAllow
	limiter *slidegate.Limiter // nil for a peer
}

// limiter opens a row over new clients.
func (b *waysBench) limiter(w *way) (*wayLimiter, error) {
	if err := b.connect(); err != nil {
		return nil, err
	}
	if w.peer != nil {
		allow, err := w.peer(spec{quota: waysQuota, window: waysWindow})
		return &wayLimiter{allow: allow}, err
	}
	below, err := b.open()
	if err != nil {
		return nil, err
	}
	together := coalesce.New(below, coalesce.Options{})
	limit := w.limit
	limit.Name, limit.Quota, limit.Window = w.name, waysQuota, waysWindow
	if w.full && b.slot > 0 {
		limit.Window = b.fullWindow()
	}
	l, err := slidegate.New(together, limit)
	if err != nil {
		return nil, err
	}
	return &wayLimiter{limiter: l, allow: func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key)
		return d.Allowed, err
	}}, nil
}

// pass uses every key once.
func (b *waysBench) pass(ctx context.Context, allow remoteAllow) error {
	return newCrew(fillCallers).run(func(i int, c *caller) error {
		for at := i; at < b.all.n; at += fillCallers {
			if err := c.send(ctx, allow, b.all.at(at)); err != nil {
				return err
			}
		}
		return nil
	})
}

// fill brings the keys of a row into the state in which they are measured.
func (b *waysBench) fill(ctx context.Context, w *way) error {
	l, err := b.limiter(w)
	if err != nil {
		return err
	}
	if !w.full {
		return b.pass(ctx, l.allow)
	}
	several := func(ctx context.Context, key string) (bool, error) {
		d, err := l.limiter.AllowN(ctx, key, b.cost)
		return d.Allowed, err
	}
	start := time.Now()
	for i := range b.passes {
		time.Sleep(time.Until(start.Add(time.Duration(i) * b.slot)))
		if err := b.pass(ctx, several); err != nil {
			return err
		}
	}
	time.Sleep(time.Until(start.Add(b.fullWindow()))) // the first units leave now
	return nil
}

// fullWindow is the window of the full log.
func (b *waysBench) fullWindow() time.Duration { return time.Duration(b.passes+1) * b.slot }

// findSlot measures how long a pass through all keys of the full log takes, and adds some time.
func (b *waysBench) findSlot(ctx context.Context) error {
	at := slices.IndexFunc(b.ways, func(w way) bool { return w.full })
	if at < 0 {
		return nil
	}
	l, err := b.limiter(&b.ways[at])
	if err != nil {
		return err
	}
	var longest time.Duration
	for range 3 {
		start := time.Now()
		if err := b.pass(ctx, l.allow); err != nil {
			return err
		}
		longest = max(longest, time.Since(start))
	}
	b.slot = max(longest*5/4, 10*time.Millisecond).Round(time.Millisecond)
	return nil
}

// noteLive records what some keys have used.
func (b *waysBench) noteLive(ctx context.Context, w *way) error {
	l, err := b.limiter(w)
	if err != nil {
		return err
	}
	const some = 100
	var sum int64
	for i := range some {
		d, err := l.limiter.Peek(ctx, b.all.at(i*b.all.n/some), 1)
		if err != nil {
			return err
		}
		sum += waysQuota - d.Remaining
	}
	b.live = append(b.live, float64(sum)/some)
	return nil
}

// wayCell identifies the figure that a sample belongs to.
type wayCell struct {
	name    string
	callers int
}

// tables times all rows in turn, and makes a table for each number of callers.
func (b *waysBench) tables(ctx context.Context) ([]*table, error) {
	if err := b.findSlot(ctx); err != nil {
		return nil, err
	}
	samples := map[wayCell]remoteSamples{}
	for round := range b.waysRounds() {
		for i := range b.ways {
			w := &b.ways[(i+round)%len(b.ways)]
			b.logf("%s, ways to count: round %d of %d: %s", b.title, round+1, b.waysRounds(), w.name)
			if err := b.timeWay(ctx, w, samples); err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	var tables []*table
	for _, callers := range b.waysCallers() {
		tables = append(tables, b.table(callers, samples))
	}
	return tables, nil
}

func (b *waysBench) timeWay(ctx context.Context, w *way, samples map[wayCell]remoteSamples) error {
	if err := b.fill(ctx, w); err != nil {
		return err
	}
	if w.full {
		if err := b.noteLive(ctx, w); err != nil {
			return err
		}
	}
	for _, callers := range b.waysCallers() {
		l, err := b.limiter(w)
		if err != nil {
			return err
		}
		one, err := timeCallers(ctx, b.server, l.allow, b.list, callers, b.waysTime())
		if err != nil {
			return err
		}
		at := wayCell{w.name, callers}
		samples[at] = append(samples[at], one)
	}
	if w.full {
		return b.noteLive(ctx, w)
	}
	return nil
}

func (b *waysBench) table(callers int, samples map[wayCell]remoteSamples) *table {
	t := &table{
		title: fmt.Sprintf("%s: ways to count, %s keys, %d per window, callers: %d", b.title, count(b.all.n), waysQuota, callers),
		columns: []string{"limiter", "algorithm", "decisions/s", "to window", "to peer", "p50 µs", "p99 µs", "server CPU µs", "commands",
			"own CPU µs", "allocs", "allowed", "spread"},
		names: 2,
	}
	of := func(w *way) remoteSamples { return samples[wayCell{w.name, callers}] }
	var window, peer remoteSamples
	for i := range b.ways {
		switch w := &b.ways[i]; {
		case w.peer != nil:
			peer = of(w)
		case i == 0:
			window = of(w)
		}
	}
	for i := range b.ways {
		w := &b.ways[i]
		got := of(w)
		if minShare := b.requiredShare(w); got.share() < minShare {
			b.fail("%s: %s, callers %d: %.4f of the requests were admitted, want %g", b.title, w.name, callers, got.share(), minShare)
		}
		commands := "-"
		if n := got.median(commandsOf); n > 0 {
			commands = fmt.Sprintf("%.2f", n)
		}
		t.add(w.name, w.algorithm, fmt.Sprintf("%.0f", got.median(rateOf)), times(got.ratioTo(window)), times(got.ratioTo(peer)),
			fmt.Sprintf("%.0f", got.median(p50Micros)), fmt.Sprintf("%.0f", got.median(p99Micros)),
			fmt.Sprintf("%.1f", got.median(serverMicros)), commands, fmt.Sprintf("%.1f", got.median(ownMicros)), allocations(got.median(allocs)),
			percent(got.share()), fmt.Sprintf("±%.0f%%", 50*got.spread()))
	}
	t.note("Medians of %d interleaved rounds of %v; ratios are of decisions per second, medians of those within each round; more is better. "+
		"Slidegate is used through internal/layer/coalesce. Windows of %v; the full log's is %v, in which each key's units were taken evenly "+
		"before the time runs. CPU, commands (those of scripts included) and allocations are a decision's.", b.waysRounds(), b.waysTime(), waysWindow, b.fullWindow())
	if len(b.live) > 0 {
		t.note("Units that a key of the full log had used, the mean of some, before and after the timed rounds: %.0f to %.0f.", slices.Min(b.live), slices.Max(b.live))
	}
	return t
}

// requiredShare returns the share of the requests that must be admitted. In a quick run it is 0 for the full log, because the windows
// are very short.
func (b *waysBench) requiredShare(w *way) float64 {
	switch {
	case w.full && b.quick:
		return 0
	case w.full:
		return 0.99
	}
	return 1
}

func (r *run) waysKeys() int {
	if r.quick {
		return 200
	}
	return min(r.keys, redisKeys)
}

func (r *run) waysRounds() int { return min(r.rounds, waysRounds) }

// waysCallers returns one caller and many, of the selected numbers.
func (r *run) waysCallers() []int {
	some := slices.DeleteFunc(slices.Clone(r.callers), func(n int) bool { return n != 1 && n != 64 })
	if len(some) == 0 {
		return r.callers[:1]
	}
	slices.Reverse(some) // many first, since they use up more of what was filled
	return some
}

// waysTime is how long one row is timed in a round.
func (r *run) waysTime() time.Duration {
	if r.quick {
		return 20 * time.Millisecond
	}
	return 500 * time.Millisecond
}
