package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/pgtest"
)

// The default above a quota of 100 keeps a count for each of up to 60 parts of the window, and the form of its state is known only
// once it was read. This scenario compares it, in a store on a server, with the window of one part, whose state is two counts.

// defaultLoad is a state of the keys in which the limiters are compared.
type defaultLoad struct {
	name    string
	window  time.Duration
	prepare func(*defaultBench, context.Context, *wayLimiter) error // brings the keys into that state
	rows    []defaultWay                                            // the others are compared with the first
	share   float64                                                 // of the requests that is admitted
}

// defaultWay is a row of the tables of the default.
type defaultWay struct {
	name   string
	limits []slidegate.Limit // of one name; each key has one of them
	bar    float64           // the goal: decisions per second, as a ratio to the first row; 0 if there is none
}

const (
	defaultQuota = 600
	smallQuota   = 60
)

// defaultLoads returns the loads. The bars are goals of this project.
func defaultLoads(bars defaultBars) []defaultLoad {
	window := defaultWay{name: rowWindow, limits: []slidegate.Limit{{Algorithm: slidegate.SlidingWindow, Quota: defaultQuota}}}
	parts := func(bar float64) defaultWay {
		return defaultWay{name: rowDefault, limits: []slidegate.Limit{{Quota: defaultQuota}}, bar: bar}
	}
	plans := defaultWay{name: "slidegate, default, plans of 60 and 600", limits: []slidegate.Limit{{Quota: smallQuota}, {Quota: defaultQuota}}, bar: bars.plans}
	log := defaultWay{name: "slidegate, default, a log of 60", limits: []slidegate.Limit{{Quota: smallQuota}}}
	return []defaultLoad{
		{name: "few used parts", window: time.Minute, prepare: (*defaultBench).useOnce, share: 1, rows: []defaultWay{window, parts(bars.few)}},
		{name: "every decision in another part", window: 6 * time.Second, prepare: (*defaultBench).useForAWindow, share: 1,
			rows: []defaultWay{window, parts(bars.rolling)}},
		{name: "refused", window: time.Minute, prepare: (*defaultBench).useUp, rows: []defaultWay{window, parts(bars.refused)}},
		{name: "plans", window: time.Minute, prepare: (*defaultBench).useOnce, share: 1, rows: []defaultWay{parts(0), plans, log}},
	}
}

// defaultBars holds the goals of a store.
type defaultBars struct{ few, rolling, refused, plans float64 }

// defaultBench compares the default with other limits in one store.
type defaultBench struct {
	*run
	title   string
	server  cpuReporter
	connect func() error
	open    func() (store.Store, error)
	bars    defaultBars
	all     keys
	list    keys
}

// redisDefaultTables measures the default in Redis.
func (r *run) redisDefaultTables() ([]*table, error) {
	ctx := context.Background()
	server, err := openRedis(ctx)
	if errors.Is(err, errNoRedis) {
		t := &table{title: "Redis: the default", columns: []string{"limiter"}}
		t.note("Left out: %v.", err)
		return []*table{t}, nil
	}
	if err != nil {
		return nil, err
	}
	defer server.close()
	b := &defaultBench{
		run: r, title: "Redis", server: server, connect: server.connect,
		open: func() (store.Store, error) { return redisstore.New(server.rueidis, redisstore.Options{}) },
		bars: defaultBars{few: 0.85, rolling: 0.75, refused: 0.8, plans: 0.8},
		all:  newKeys(0, r.waysKeys()),
	}
	b.list = b.all.uniform(1<<18, 1)
	return b.tables(ctx)
}

// pgDefaultTables measures the default in PostgreSQL.
func (r *run) pgDefaultTables() ([]*table, error) {
	ctx := context.Background()
	server, err := openPG(ctx, r.conns)
	if errors.Is(err, pgtest.ErrNoServer) {
		t := &table{title: "PostgreSQL: the default", columns: []string{"limiter"}}
		t.note("Left out: postgres is missing, and %s is not set. Install the package postgresql.", pgURLEnv)
		return []*table{t}, nil
	}
	if err != nil {
		return nil, err
	}
	defer server.close()
	b := &defaultBench{
		run: r, title: "PostgreSQL", server: server, connect: func() error { return nil },
		open: func() (store.Store, error) { return pgstore.New(server.pool, slidegateOptions(true)) },
		bars: defaultBars{few: 0.8, rolling: 0.8, refused: 0.8, plans: 0.8},
		all:  newKeys(0, r.waysKeys()),
	}
	b.list = b.all.uniform(1<<18, 1)
	return b.tables(ctx)
}

// natsDefaultTables measures the default in a NATS server that keeps its state in memory.
func (r *run) natsDefaultTables() ([]*table, error) {
	ctx := context.Background()
	server, err := openNATS(ctx, filepath.Join(r.folder, "nats-default"), 1, true)
	if err != nil {
		return nil, err
	}
	defer server.close()
	engine, end, err := server.engine(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	b := &defaultBench{
		run: r, title: "NATS", server: server, connect: func() error { return nil },
		open: func() (store.Store, error) { return kvstore.New(engine, kvstore.Options{Timeout: kvTimeout}) },
		bars: defaultBars{few: 0.8, rolling: 0.8, refused: 0.8, plans: 0.8},
		all:  newKeys(0, r.waysKeys()),
	}
	b.list = b.all.uniform(1<<18, 1)
	return b.tables(ctx)
}

// tables times the rows of each load in turn.
func (b *defaultBench) tables(ctx context.Context) ([]*table, error) {
	var tables []*table
	if !b.measuresOwn() {
		return nil, nil
	}
	for _, load := range defaultLoads(b.bars) {
		samples := map[wayCell]remoteSamples{}
		for round := range b.waysRounds() {
			for i := range load.rows {
				row := &load.rows[(i+round)%len(load.rows)]
				b.logf("%s, the default, %s: round %d of %d: %s", b.title, load.name, round+1, b.waysRounds(), row.name)
				if err := b.timeRow(ctx, &load, row, round, samples); err != nil {
					return nil, fmt.Errorf("%s: %w", row.name, err)
				}
			}
		}
		for _, callers := range b.waysCallers() {
			tables = append(tables, b.table(&load, callers, samples))
		}
	}
	return tables, nil
}

// limiter opens a row over new clients. Every round has a name of its own, and so its own keys in the store.
func (b *defaultBench) limiter(load *defaultLoad, row *defaultWay, round int) (*wayLimiter, error) {
	if err := b.connect(); err != nil {
		return nil, err
	}
	below, err := b.open()
	if err != nil {
		return nil, err
	}
	together := coalesce.New(below, coalesce.Options{})
	var plans []*slidegate.Limiter
	for _, limit := range row.limits {
		limit.Name, limit.Window = fmt.Sprintf("%s %s %d", load.name, row.name, round), load.window
		l, err := slidegate.New(together, limit)
		if err != nil {
			return nil, err
		}
		plans = append(plans, l)
	}
	planOf := func(key string) *slidegate.Limiter { return plans[int(key[len(key)-1])%len(plans)] }
	return &wayLimiter{limiter: plans[0], allow: func(ctx context.Context, key string) (bool, error) {
		d, err := planOf(key).Allow(ctx, key)
		return d.Allowed, err
	}}, nil
}

// timeRow times a row of a load for each number of callers.
func (b *defaultBench) timeRow(ctx context.Context, load *defaultLoad, row *defaultWay, round int, samples map[wayCell]remoteSamples) error {
	l, err := b.limiter(load, row, round)
	if err != nil {
		return err
	}
	if err := load.prepare(b, ctx, l); err != nil {
		return err
	}
	for _, callers := range b.waysCallers() {
		if l, err = b.limiter(load, row, round); err != nil {
			return err
		}
		one, err := timeCallers(ctx, b.server, l.allow, b.list, callers, b.waysTime())
		if err != nil {
			return err
		}
		at := wayCell{row.name, callers}
		samples[at] = append(samples[at], one)
	}
	return nil
}

// pass uses every key once.
func (b *defaultBench) pass(ctx context.Context, allow remoteAllow) error {
	return useEachKey(ctx, allow, b.all)
}

func (b *defaultBench) useOnce(ctx context.Context, l *wayLimiter) error { return b.pass(ctx, l.allow) }

// useForAWindow uses the keys for a window, so that units are in as many parts as they will be.
func (b *defaultBench) useForAWindow(ctx context.Context, l *wayLimiter) error {
	length := 6 * time.Second
	if b.quick {
		length = b.waysTime()
	}
	_, err := timeCallers(ctx, b.server, l.allow, b.list, fillCallers, length)
	return err
}

// useUp uses up the quota of every key, in a few parts.
func (b *defaultBench) useUp(ctx context.Context, l *wayLimiter) error {
	const passes = 3
	for i := range passes {
		if i > 0 && !b.quick {
			time.Sleep(time.Second)
		}
		err := b.pass(ctx, func(ctx context.Context, key string) (bool, error) {
			d, err := l.limiter.AllowN(ctx, key, defaultQuota/passes)
			return d.Allowed, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *defaultBench) table(load *defaultLoad, callers int, samples map[wayCell]remoteSamples) *table {
	t := &table{
		title: fmt.Sprintf("%s: the default, %s, %s keys, callers: %d", b.title, load.name, count(b.all.n), callers),
		columns: []string{"limiter", "decisions/s", "to the first", "p50 µs", "p99 µs", "server CPU µs", "CPU, to the first",
			"own CPU µs", "allocs", "spread", "goal"},
		names: 1,
	}
	first := samples[wayCell{load.rows[0].name, callers}]
	for i := range load.rows {
		row := &load.rows[i]
		got := samples[wayCell{row.name, callers}]
		// The median, because the window of one part frees units wherever a minute ends within a round.
		if share := got.median(shareOf); share != load.share {
			b.fail("%s: the default, %s: %s, callers %d: %.4f of the requests were admitted, want %g", b.title, load.name, row.name, callers, share, load.share)
		}
		result := ""
		if row.bar > 0 && callers == fillCallers {
			result = goal(fmt.Sprintf("%gx the first", row.bar), got.ratioTo(first) >= row.bar)
		}
		cpu := first.median(serverMicros) / max(got.median(serverMicros), 1e-9)
		t.add(row.name, fmt.Sprintf("%.0f", got.median(rateOf)), times(got.ratioTo(first)), fmt.Sprintf("%.0f", got.median(p50Micros)),
			fmt.Sprintf("%.0f", got.median(p99Micros)), fmt.Sprintf("%.1f", got.median(serverMicros)), times(cpu),
			fmt.Sprintf("%.1f", got.median(ownMicros)), allocations(got.median(allocs)), fmt.Sprintf("±%.0f%%", 50*got.spread()), result)
	}
	t.note("Medians of %d interleaved rounds of %v; ratios are of decisions per second, medians of those within each round; more is better. Windows of %v. "+
		"Slidegate is used through internal/layer/coalesce.", b.waysRounds(), b.waysTime(), load.window)
	return t
}
