package pgstore_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/pgtest"
)

// BenchmarkTake measures 1 and 64 callers, for one key and for many, compared with an UPDATE that only counts: the
// least that a limiter in this database could do. The server belongs to the test, with fsync, or is the one of
// DATABASE_URL.
func BenchmarkTake(b *testing.B) {
	server := pgtest.Start(b)
	pool := server.Pool(b, "pool_max_conns=64")
	if err := pgstore.Migrate(b.Context(), pool, pgstore.Options{}); err != nil {
		b.Fatal(err)
	}
	st, err := pgstore.New(pool, pgstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	limit, err := adapter.Bind("bench", slidegate.Limit{Name: "allow", Quota: 1 << 40, Window: time.Hour, Algorithm: slidegate.SlidingWindow})
	if err != nil {
		b.Fatal(err)
	}
	const keys = 100_000
	fill(b, pool, st, limit, keys)
	ways := map[string]store.Store{"alone": st}
	for _, n := range []int{1, 2, 4, 8} {
		ways[fmt.Sprint("coalesce-", n)] = coalesce.New(st, coalesce.Options{InFlight: n})
	}
	for _, callers := range []int{1, 64} {
		for _, spread := range []int{1, keys} {
			name := fmt.Sprintf("callers=%d/keys=%d/", callers, spread)
			b.Run(name+"update", func(b *testing.B) {
				share(b, callers, spread, func(key string) error {
					_, err := pool.Exec(b.Context(), "UPDATE plain SET n = n + 1 WHERE key = $1", key)
					return err
				})
			})
			for _, way := range []string{"alone", "coalesce-1", "coalesce-2", "coalesce-4", "coalesce-8"} {
				b.Run(name+way, func(b *testing.B) { takes(b, ways[way], limit, callers, spread) })
			}
		}
	}
	full, err := adapter.Bind("bench", slidegate.Limit{Name: "allow", Quota: 1, Window: time.Hour, Algorithm: slidegate.SlidingWindow})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("callers=64/refused/alone", func(b *testing.B) { takes(b, st, full, 64, 1000) })
	b.Run("callers=64/refused/coalesce-4", func(b *testing.B) { takes(b, ways["coalesce-4"], full, 64, 1000) })
}

// fill creates all keys and the table for comparison.
func fill(b *testing.B, pool *pgxpool.Pool, st store.Store, limit *store.Limit, keys int) {
	b.Helper()
	_, err := pool.Exec(b.Context(), `DROP TABLE IF EXISTS plain; CREATE TABLE plain (key text COLLATE "C" PRIMARY KEY, n bigint) WITH (fillfactor = 50);
		INSERT INTO plain SELECT 'key-' || i, 0 FROM generate_series(0, 99999) i; ANALYZE plain`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		b.Fatal(err)
	}
	batch := make([]store.Request, 1000)
	for i := 0; i < keys; i += len(batch) {
		for j := range batch {
			batch[j] = store.Request{
				Charges: []store.Charge{{Limit: limit, Key: "key-" + strconv.Itoa(i+j), Cost: 1}}, Answers: make([]rule.Answer, 1),
			}
		}
		if err := st.Apply(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := pool.Exec(b.Context(), "VACUUM ANALYZE slidegate_state"); err != nil {
		b.Fatal(err)
	}
}

func takes(b *testing.B, st store.Store, limit *store.Limit, callers, keys int) {
	b.ReportAllocs()
	share(b, callers, keys, func(key string) error {
		request := store.Request{Charges: []store.Charge{{Limit: limit, Key: key, Cost: 1}}, Answers: make([]rule.Answer, 1)}
		return st.Apply(context.Background(), []store.Request{request})
	})
}

// share divides the iterations of a benchmark among callers.
func share(b *testing.B, callers, keys int, ask func(key string) error) {
	var requests atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				i := requests.Add(1)
				if i > int64(b.N) {
					return
				}
				if err := ask("key-" + strconv.Itoa(int(uint64(i)*0x9E3779B97F4A7C15>>33%uint64(keys)))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}
