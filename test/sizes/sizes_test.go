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

var (
	perMinute = slidegate.MustParseLimit("600/1m")
	perHour   = slidegate.MustParseLimit("600/1h")
)

// rows are the rows of the table in docs/stores.md: what each of so many keys takes after so many calls.
var rows = []struct {
	name        string
	limit       slidegate.Limit
	keys, calls int
}{
	{"`600/1m`, 1 unit", perMinute, 5000, 1},
	{"`60/1m`, 1 unit", slidegate.MustParseLimit("60/1m name=small"), 5000, 1},
	{"`60/1m`, 20 units", slidegate.MustParseLimit("60/1m name=used"), 500, 20},
	{"`600/1m segments=1`", slidegate.MustParseLimit("600/1m segments=1"), 5000, 1},
}

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
	eachRow(t, s, "Redis", 1, used)
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.Start(t).Pool(t, "pool_max_conns=1") // with several connections, the table may grow by more than it needs
	if err := pgstore.Migrate(t.Context(), pool, pgstore.Options{}); err != nil {
		t.Fatal(err)
	}
	s := kit.Must(pgstore.New(pool, pgstore.Options{}))(t)
	eachRow(t, s, "PostgreSQL", 2, func() int64 {
		if _, err := pool.Exec(t.Context(), "VACUUM FULL slidegate_state"); err != nil { // rows that were replaced make room for others
			t.Fatal(err)
		}
		return number(t, pool, "SELECT pg_total_relation_size('slidegate_state')")
	})

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
		eachRow(t, s, fmt.Sprintf("NATS, in memory %t", memory), group, func() int64 {
			return int64(kit.Must(stream.Info(t.Context()))(t).State.Bytes)
		})
	}
}

func TestMemcached(t *testing.T) {
	t.Parallel()
	server := memcachedtest.Start(t, "-M")
	engine := kit.Must(memcached.New(t.Context(), server.Client(t), memcached.Options{ClockServer: server.Addr()}))(t)
	s := open(t, engine)
	used := func() int64 { return server.Count("bytes") }
	one := eachRow(t, s, "memcached", 5, used)

	const keys = 1000
	before := used()
	fill(t, s, keys, 1, slidegate.MustParseLimit("600/1m name=both"), perHour)
	says(t, "memcached.md", `An entry takes about (\d+) bytes with one limit, about (\d+) with two`, one, (used()-before)/keys)
}

// eachRow compares a column of the table in docs/stores.md with what a store takes for each row of keys. It returns the first figure.
func eachRow(t *testing.T, s store.Store, name string, column int, used func() int64) (first int64) {
	t.Helper()
	for _, r := range rows {
		before := used()
		fill(t, s, r.keys, r.calls, r.limit)
		each := (used() - before) / int64(r.keys)
		t.Logf("%s: %s: %d bytes per key", name, r.name, each)
		compare(t, "stores.md", "\\| "+r.name+` \| \d+ \| (\d+) \| (\d+) \| (\d+), on disk (\d+) \| (\d+) \|`, column, each)
		if first == 0 {
			first = each
		}
	}
	return first
}

// open opens a store that is patient, because the machine may be busy.
func open(t *testing.T, engine kvstore.Engine) *kvstore.Store {
	return kit.Must(kvstore.New(engine, kvstore.Options{Timeout: time.Minute}))(t)
}

// fill takes a unit of each key, and again. Keys have 16 bytes.
func fill(t *testing.T, s store.Store, keys, calls int, limits ...slidegate.Limit) {
	t.Helper()
	limiter := kit.Must(slidegate.New(s, limits...))(t)
	const together = 50
	var callers sync.WaitGroup
	for first := range together {
		callers.Go(func() {
			for n := 0; n < calls*keys/together; n++ {
				i := first + n/calls*together
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
