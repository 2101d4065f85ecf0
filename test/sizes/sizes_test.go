// Package sizes measures how many bytes a key takes in the stores that are servers, and compares the pages with that. Run it with -v
// to see what it measures.
package sizes

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/memcachedtest"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

const keys = 5000

var (
	perMinute = slidegate.MustParseLimit("1000/1m")
	perHour   = slidegate.MustParseLimit("1000/1h")
)

func TestRedis(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, `save ""`, "appendonly no").Client(t)
	used := func() int64 {
		info := kit.Must(client.Do(t.Context(), client.B().Info().Section("memory").Build()).ToString())(t)
		return kit.Must(strconv.ParseInt(regexp.MustCompile(`(?m)^used_memory:(\d+)`).FindStringSubmatch(info)[1], 10, 64))(t)
	}
	s := kit.Must(redisstore.New(client, redisstore.Options{}))(t)
	if _, err := kit.Must(slidegate.New(s, perMinute))(t).Allow(t.Context(), "loads the script"); err != nil {
		t.Fatal(err)
	}
	before := used()
	fill(t, s, perMinute)
	row(t, "Redis", 1, (used()-before)/keys)
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.Start(t).Pool(t, "pool_max_conns=1") // with several connections, the table may grow by more than it needs
	if err := pgstore.Migrate(t.Context(), pool, pgstore.Options{}); err != nil {
		t.Fatal(err)
	}
	s := kit.Must(pgstore.New(pool, pgstore.Options{}))(t)
	const size = "SELECT pg_total_relation_size('slidegate_state')"
	before := number(t, pool, size)
	fill(t, s, perMinute)
	row(t, "PostgreSQL", 2, (number(t, pool, size)-before)/keys)

	limiter := kit.Must(slidegate.New(s, slidegate.MustParseLimit("1000/1m name=tokens")))(t)
	reservation, _, err := limiter.Reserve(t.Context(), "user-42", 500)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limiter.SettleAll(t.Context(), reservation, 300); err != nil {
		t.Fatal(err)
	}
	settlement := number(t, pool, "SELECT max(pg_column_size(s.*)) FROM slidegate_state s WHERE address LIKE '\\%settled%'")
	says(t, "postgres.md", `Each takes some (\d+) bytes, and an entry in the index`, settlement)
}

func TestNATS(t *testing.T) {
	t.Parallel()
	for group, memory := range map[int]bool{3: true, 4: false} {
		conn := natstest.Connect(t, natstest.Start(t))
		fill(t, open(t, kit.Must(natskv.New(t.Context(), conn, natskv.Options{Memory: memory}))(t)), perMinute)
		stream := kit.Must(kit.Must(jetstream.New(conn))(t).Stream(t.Context(), "KV_slidegate"))(t)
		row(t, fmt.Sprintf("NATS, in memory %t", memory), group, int64(kit.Must(stream.Info(t.Context()))(t).State.Bytes)/keys)
	}
}

func TestMemcached(t *testing.T) {
	t.Parallel()
	one, two := memcachedEntry(t, perMinute), memcachedEntry(t, perMinute, perHour)
	row(t, "memcached", 5, one)
	says(t, "memcached.md", `An entry takes about (\d+) bytes with one limit, about (\d+) with two`, one, two)
}

func memcachedEntry(t *testing.T, limits ...slidegate.Limit) int64 {
	server := memcachedtest.Start(t, "-M")
	engine := kit.Must(memcached.New(t.Context(), server.Client(t), memcached.Options{ClockServer: server.Addr()}))(t)
	fill(t, open(t, engine), limits...)
	return server.Count("bytes") / server.Count("curr_items")
}

// open opens a store that is patient, because the machine may be busy.
func open(t *testing.T, engine kvstore.Engine) *kvstore.Store {
	return kit.Must(kvstore.New(engine, kvstore.Options{Timeout: time.Minute}))(t)
}

// fill takes one unit of each key. Keys have 16 bytes.
func fill(t *testing.T, s store.Store, limits ...slidegate.Limit) {
	t.Helper()
	limiter := kit.Must(slidegate.New(s, limits...))(t)
	const together = 50
	var callers sync.WaitGroup
	for first := range together {
		callers.Go(func() {
			for i := first; i < keys; i += together {
				if d, err := limiter.Allow(t.Context(), fmt.Sprintf("user-%011d", i)); err != nil || !d.Allowed {
					t.Errorf("key %d: got %+v, %v", i, d, err)
					return
				}
			}
		})
	}
	callers.Wait()
}

func number(t *testing.T, pool *pgxpool.Pool, query string) (n int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// row compares a figure in the row of bytes per key in docs/stores.md.
func row(t *testing.T, name string, group int, measured int64) {
	t.Helper()
	t.Logf("%s: %d bytes per key", name, measured)
	compare(t, "stores.md", "bytes per key of 16 bytes, `1000/1m` \\| \\d+ \\| (\\d+) \\| (\\d+), with the index \\| "+
		`(\d+) in memory, (\d+) on disk, in each replica \| (\d+) \|`, group, measured)
}

// says compares the figures in a sentence of a page.
func says(t *testing.T, page, pattern string, measured ...int64) {
	t.Helper()
	t.Logf("%s: %d", page, measured)
	for i, n := range measured {
		compare(t, page, pattern, i+1, n)
	}
}

// compare compares a group of a pattern in a page with what was measured. Pages have round figures.
func compare(t *testing.T, page, pattern string, group int, measured int64) {
	t.Helper()
	text := string(kit.Must(os.ReadFile("../../docs/" + page))(t))
	match := regexp.MustCompile(pattern).FindStringSubmatch(strings.Join(strings.Fields(text), " "))
	if match == nil {
		t.Fatalf("docs/%s has no text like %s; change the pattern with the page", page, pattern)
	}
	got := kit.Must(strconv.ParseInt(match[group], 10, 64))(t)
	if got < measured*90/100 || got > measured*110/100 {
		t.Errorf("docs/%s: %q: got %d, want about %d", page, match[0], got, measured)
	}
}
