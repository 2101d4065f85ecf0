package pgstore_test

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/pgtest"
)

// bindRule binds a limit of the rule.
func bindRule(t testing.TB, namespace, name string, l rule.Limit) *store.Limit {
	t.Helper()
	return store.Bind(namespace, name, name, kit.Must(l.Normalize())(t))
}

// countingNetConn is a connection that counts its bytes.
type countingNetConn struct {
	net.Conn
	sent, received *atomic.Int64
}

func (c countingNetConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

func (c countingNetConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// countedPool returns one connection to a database, and its counts.
func countedPool(t testing.TB, url string) (pool *pgxpool.Pool, sent, received *atomic.Int64) {
	t.Helper()
	sent, received = new(atomic.Int64), new(atomic.Int64)
	config := kit.Must(pgxpool.ParseConfig(url))(t)
	config.MaxConns = 1
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return countingNetConn{conn, sent, received}, err
	}
	pool = kit.Must(pgxpool.NewWithConfig(context.Background(), config))(t)
	t.Cleanup(pool.Close)
	return pool, sent, received
}

// BenchmarkOperations measures what each path costs one caller, in time and in bytes on the wire: a settlement that is
// remembered compared with a refund, and slots and calendars compared with windows.
func BenchmarkOperations(b *testing.B) {
	server := pgtest.Shared(b)
	pool, sent, received := countedPool(b, server.URL())
	if err := pgstore.Migrate(b.Context(), pool, pgstore.Options{}); err != nil {
		b.Fatal(err)
	}
	st := newStore(b, pool, pgstore.Options{})
	limits := map[string]*store.Limit{}
	for name, l := range map[string]rule.Limit{
		"window":   {Algorithm: rule.SlidingWindow, Quota: 1 << 40, Window: 3600e6},
		"segments": {Algorithm: rule.SlidingWindow, Quota: 1 << 40, Window: 3600e6, Segments: 6},
		"log":      {Algorithm: rule.SlidingLog, Quota: 100, Window: 1e6, CountRefused: true},
		"bucket":   {Algorithm: rule.TokenBucket, Quota: 1 << 40, Window: 3600e6},
		"slots":    {Algorithm: rule.InFlight, Quota: 50, Window: 1e6},
		"calendar": {Calendar: rule.Month, Zone: "Europe/Berlin", Quota: 1 << 40},
	} {
		limits[name] = bindRule(b, "bench", name, l)
	}
	run := func(name string, request func(i int) store.Request) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			out, in := sent.Load(), received.Load()
			for i := range b.N {
				r := request(i)
				r.Answers = make([]rule.Answer, len(r.Charges))
				if err := st.Apply(b.Context(), []store.Request{r}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(sent.Load()-out)/float64(b.N), "B-sent/op")
			b.ReportMetric(float64(received.Load()-in)/float64(b.N), "B-received/op")
		})
	}
	for _, name := range []string{"window", "segments", "log", "bucket", "slots", "calendar"} {
		run("take/"+name, func(i int) store.Request {
			return store.Request{ID: rule.ID(i + 1), Charges: []store.Charge{{Limit: limits[name], Key: "key", Cost: 1}}}
		})
	}
	start := time.Now().UnixMicro()
	for _, op := range []rule.Op{rule.GiveBack, rule.Settle} {
		run(op.String()+"/window", func(i int) store.Request {
			charge := store.Charge{Limit: limits["window"], Key: strconv.Itoa(i % 1000), Cost: 1, At: rule.Micros(start)}
			return store.Request{Op: op, ID: rule.ID(i + b.N), Charges: []store.Charge{charge}}
		})
	}
	run("settle/repeated", func(int) store.Request {
		charge := store.Charge{Limit: limits["window"], Key: "key", Cost: 1, At: rule.Micros(start)}
		return store.Request{Op: rule.Settle, ID: 1, Charges: []store.Charge{charge}}
	})
}
