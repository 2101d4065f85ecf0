package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/race"
)

var soakLength = flag.Duration("soak", 3*time.Second, "how long to update the table at full load to check that its size is bounded")

const (
	soakKeys    = 500
	soakCallers = 32
	soakLeast   = 8 * soakKeys // minimum number of requests: fewer would prove nothing
	soakReports = 10           // how many intervals are reported
)

// soakLimits are a state of two counts, and a log that grows to some 160 bytes and stays there.
var soakLimits = []slidegate.Limit{
	{Name: "window", Quota: 1_000_000_000, Window: time.Hour},
	{Name: "log", Quota: 20, Window: time.Second, Algorithm: slidegate.SlidingLog, CountRefused: true},
}

// A table whose rows are updated endlessly at full load stays bounded: old rows are removed as fast as they come. The
// test prints, over time, the size of the table and its index, the share of updates that touched no index, the dead
// rows, and the latency.
func TestSoak(t *testing.T) {
	t.Parallel()
	server := migrated(t, pgtest.Start(t, "fsync = off", "synchronous_commit = off"), pgstore.Options{})
	pool := server.Pool(t, "pool_max_conns=8")
	l := &soakLoad{limiters: soakLimiters(t, pool)}
	if err := l.touchAll(); err != nil {
		t.Fatal(err)
	}
	first := bloatOf(t, pool)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wait sync.WaitGroup
	for i := range soakCallers {
		wait.Go(func() { l.apply(ctx, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	t.Logf("%8s %10s %9s %9s %7s %8s %8s %9s", "after", "updates", "table kB", "index kB", "HOT", "dead", "p99", "requests")
	start := time.Now()
	tick := time.NewTicker(*soakLength / soakReports)
	defer tick.Stop()
	var largest bloat
	for total := int64(0); time.Since(start) < *soakLength || total < soakLeast && time.Since(start) < *soakLength+patience; {
		<-tick.C
		now := bloatOf(t, pool)
		p99, requests := l.interval()
		total += requests
		t.Logf("%8s %10d %9d %9d %6.1f%% %8d %8s %9d", time.Since(start).Round(100*time.Millisecond), now.updates, now.table>>10, now.index>>10,
			100*now.hotShare(), now.dead, p99.Round(10*time.Microsecond), requests)
		largest.table, largest.index = max(largest.table, now.table), max(largest.index, now.index)
	}
	cancel()
	wait.Wait()
	if err := l.failed.Load(); err != nil {
		t.Fatal(*err)
	}
	checkBounded(t, pool, first, largest)
}

// checkBounded checks the size of the table: a page is left half empty for the next version of its rows, so a table
// that is updated forever may grow to a few times the size of its rows, however many updates there were.
func checkBounded(t *testing.T, pool *pgxpool.Pool, first, largest bloat) {
	t.Helper()
	var last bloat
	kit.Eventually(t, "enough updates to mean anything, in statistics that come with a delay", func() bool {
		last = bloatOf(t, pool)
		return last.updates >= soakLeast/4
	})
	rowBytes := int64(2*soakKeys) * 300 // a row of a window takes about 120 bytes, one of a full log about 320
	if bound := 6 * rowBytes; largest.table > bound {
		t.Errorf("the table grew to %d kB, want at most %d kB, from %d kB at first", largest.table>>10, bound>>10, first.table>>10)
	}
	if bound := 3*first.index + 256<<10; largest.index > bound {
		t.Errorf("the index grew to %d kB, want at most %d kB, from %d kB at first", largest.index>>10, bound>>10, first.index>>10)
	}
	least := 0.9
	if *soakLength < time.Minute { // at first the table grows, and where transactions are slow, pages are full of versions that are still read
		least = 0.5
	}
	if last.hotShare() < least {
		t.Errorf("only %.1f%% of %d updates touched no index", 100*last.hotShare(), last.updates)
	}
}

// bloat is how large a table is, and how much of it is old.
type bloat struct{ table, index, updates, hot, dead int64 }

func (b bloat) hotShare() float64 { return float64(b.hot) / float64(max(b.updates, 1)) }

func bloatOf(t *testing.T, pool *pgxpool.Pool) (b bloat) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := pool.QueryRow(ctx, `SELECT pg_table_size(relid), pg_indexes_size(relid), n_tup_upd, n_tup_hot_upd, n_dead_tup
		FROM pg_stat_user_tables WHERE relname = 'slidegate_state'`).Scan(&b.table, &b.index, &b.updates, &b.hot, &b.dead)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// soakLoad requests random keys, and records the latency.
type soakLoad struct {
	limiters []*slidegate.Limiter
	failed   atomic.Pointer[error]
	mu       sync.Mutex
	waits    []time.Duration // of this interval: a sample if there are very many
	requests int64
}

func soakLimiters(t *testing.T, pool *pgxpool.Pool) (all []*slidegate.Limiter) {
	t.Helper()
	store, err := pgstore.New(pool, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	together := coalesce.New(store, coalesce.Options{InFlight: 2})
	for _, limit := range soakLimits {
		l, err := slidegate.New(together, limit)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func soakKey(i int) string { return fmt.Sprintf("key-%d", i) }

// touchAll creates a row for every key of every limit.
func (l *soakLoad) touchAll() error {
	_, err := race.Concurrently(soakCallers, func(i int) (int64, error) {
		for key := i; key < soakKeys; key += soakCallers {
			for _, limiter := range l.limiters {
				if _, err := limiter.Allow(context.Background(), soakKey(key)); err != nil {
					return 0, err
				}
			}
		}
		return 0, nil
	})
	return err
}

func (l *soakLoad) apply(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		before := time.Now()
		_, err := l.limiters[random.IntN(len(l.limiters))].Allow(context.Background(), soakKey(random.IntN(soakKeys)))
		if err != nil {
			l.failed.Store(&err)
			return
		}
		l.note(time.Since(before))
	}
}

func (l *soakLoad) note(wait time.Duration) {
	const most = 1 << 18
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests++; len(l.waits) < most {
		l.waits = append(l.waits, wait)
	} else if at := rand.Int64N(l.requests); at < most {
		l.waits[at] = wait
	}
}

// interval ends an interval and returns the 99th percentile of the latency in it, and the number of requests.
func (l *soakLoad) interval() (p99 time.Duration, requests int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waits) > 0 {
		slices.Sort(l.waits)
		p99 = l.waits[len(l.waits)*99/100]
	}
	requests = l.requests
	l.waits, l.requests = l.waits[:0], 0
	return p99, requests
}
