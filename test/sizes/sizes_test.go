// Package sizes measures how many bytes a key takes in the stores that are servers, and compares the pages with that. Run it with -v
// to see what it measures.
package sizes

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

var perMinute = slidegate.MustParseLimit("600/1m")

// row is a row of the table in docs/stores.md: what each of so many keys takes after so many calls or, if perCall is set, what each
// call takes.
type row struct {
	name        string
	limit       slidegate.Limit
	keys, calls int
	perCall     bool
	call        func(l *slidegate.Limiter, ctx context.Context, key string) (slidegate.Decision, error) // nil means Allow
}

var rows = []row{
	{name: "`600/1m`, 1 unit", limit: perMinute, keys: 2000, calls: 1},
	{name: "`60/1m`, 1 unit", limit: slidegate.MustParseLimit("60/1m"), keys: 2000, calls: 1},
	{name: "`60/1m`, 20 units", limit: slidegate.MustParseLimit("60/1m"), keys: 500, calls: 20},
	{name: "`600/1m segments=1`", limit: slidegate.MustParseLimit("600/1m segments=1"), keys: 2000, calls: 1},
	{
		name: "each hold", limit: slidegate.MustParseLimit("600/1m hold=10m"), keys: 50, calls: 100, perCall: true,
		call: func(l *slidegate.Limiter, ctx context.Context, key string) (slidegate.Decision, error) {
			_, d, err := l.Reserve(ctx, key, 3)
			return d, err
		},
	},
	{
		name: "each id of a call", limit: perMinute, keys: 50, calls: 100, perCall: true,
		call: func(l *slidegate.Limiter, ctx context.Context, key string) (slidegate.Decision, error) {
			return l.Once(rand.Text()).Allow(ctx, key)
		},
	},
}

func TestRedis(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, `save ""`, "appendonly no").Client(t)
	used := func() int64 { // the store was emptied for each row, because its table of keys grows in steps
		info := kit.Must(client.Do(t.Context(), client.B().Info().Section("memory").Build()).ToString())(t)
		field := func(name string) int64 {
			return kit.Must(strconv.ParseInt(regexp.MustCompile(`(?m)^` + name + `:(\d+)`).FindStringSubmatch(info)[1], 10, 64))(t)
		}
		return field("used_memory") - field("mem_clients_normal")
	}
	s := kit.Must(redisstore.New(client, redisstore.Options{}))(t)
	if _, err := kit.Must(slidegate.New(s, perMinute))(t).Allow(t.Context(), "loads the script"); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := client.Do(t.Context(), client.B().Flushall().Sync().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		r.keys *= 4 // what else the server allocates then hardly matters
		r.compare(t, s, "Redis", 1, used)
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.Start(t).Pool(t, "pool_max_conns=1") // with several connections, the table may grow by more than it needs
	if err := pgstore.Migrate(t.Context(), pool, pgstore.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "SET synchronous_commit = off"); err != nil { // for the pool's only connection
		t.Fatal(err)
	}
	s := kit.Must(pgstore.New(pool, pgstore.Options{}))(t)
	for _, r := range rows {
		r.compare(t, s, "PostgreSQL", 2, func() int64 {
			if _, err := pool.Exec(t.Context(), "VACUUM FULL slidegate_state"); err != nil { // also the space of rows that were replaced
				t.Fatal(err)
			}
			return number(t, pool, "SELECT pg_total_relation_size('slidegate_state')")
		})
	}

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
		s := open(t, kit.Must(natskv.New(t.Context(), conn, natskv.Options{Memory: memory}))(t))
		stream := kit.Must(kit.Must(jetstream.New(conn))(t).Stream(t.Context(), "KV_slidegate"))(t)
		for _, r := range rows {
			r.compare(t, s, fmt.Sprintf("NATS, in memory %t", memory), group, func() int64 {
				return int64(kit.Must(stream.Info(t.Context()))(t).State.Bytes)
			})
		}
	}
}

// open opens a store that is patient, because the machine may be busy.
func open(t *testing.T, engine kvstore.Engine) *kvstore.Store {
	return kit.Must(kvstore.New(engine, kvstore.Options{Timeout: time.Minute}))(t)
}

// compare compares a column of the row with what a store takes.
func (r *row) compare(t *testing.T, s store.Store, name string, column int, used func() int64) {
	t.Helper()
	each := r.fill(t, s, used)
	t.Logf("%s: %s: %d bytes each", name, r.name, each)
	compare(t, "stores.md", "\\| "+r.name+` \| \d+ \| (\d+) \| (\d+) \| (\d+), on disk (\d+) \|`, column, each)
}

// fill makes calls for new keys of 16 bytes, under other limits too, and returns what each of them takes.
func (r *row) fill(t *testing.T, s store.Store, used func() int64, others ...slidegate.Limit) (each int64) {
	t.Helper()
	limiter := kit.Must(kit.Must(slidegate.New(s))(t).With(append(others, r.limit)...))(t)
	call := r.call
	if call == nil {
		call = (*slidegate.Limiter).Allow
	}
	const together = 50
	before, series := used(), fills.Add(1)
	var callers sync.WaitGroup
	for first := range together {
		callers.Go(func() {
			for n := range r.calls * r.keys / together {
				key := fmt.Sprintf("user-%03d-%07d", series, first+n/r.calls*together)
				if d, err := call(limiter, t.Context(), key); err != nil || !d.Allowed {
					t.Errorf("%s: got %+v, %v", key, d, err)
					return
				}
			}
		})
	}
	callers.Wait()
	if r.perCall {
		return (used() - before) / int64(r.keys*r.calls)
	}
	return (used() - before) / int64(r.keys)
}

// fills counts the calls of fill, so that each uses new keys.
var fills atomic.Int64

func number(t *testing.T, pool *pgxpool.Pool, query string) (n int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
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
