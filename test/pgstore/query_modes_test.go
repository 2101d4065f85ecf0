package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/porttest"
)

// oddKeys are keys that would break a statement if they were written into it carelessly.
var oddKeys = []string{"", `"`, `\`, `'; --`, "{a,b}", "NULL", "$1", "\x00\xff", "é"}

// exercise sends requests by each of a store's paths, and compares the answers with the rule's.
func exercise(t *testing.T, open func(opts pgstore.Options) *pgstore.Store) {
	t.Helper()
	var st *pgstore.Store
	w := porttest.NewTwin(t, func(_ testing.TB, now func() rule.Micros) store.Store {
		st = open(pgstore.Options{Now: now})
		return st
	})
	w.Now = 1_767_000_000e6
	var limits []*store.Limit
	for _, limit := range porttest.Kinds() {
		limits = append(limits, bind(t, t.Name(), limit))
	}
	slots := bindRule(t, t.Name(), "slots", rule.Limit{Algorithm: rule.InFlight, Quota: 2, Window: 3600e6})
	month := bindRule(t, t.Name(), "month", rule.Limit{Calendar: rule.Month, Zone: "Europe/Berlin", Quota: 1000})
	compare := func() {
		t.Helper()
		if err := w.Compare(); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		for _, key := range oddKeys[:len(oddKeys)-3*round] { // some once, some repeatedly
			w.Now += 1_000_001
			w.Apply(rule.Take, "", store.Charge{Limit: limits[0], Key: key, Cost: 1}) // one
			compare()
			for _, limit := range limits { // many
				w.Apply(rule.Take, `a"b,c`, store.Charge{Limit: limit, Key: key, Cost: int64(round + 2)})
			}
			compare()
			var several []store.Charge
			for _, limit := range limits {
				several = append(several, store.Charge{Limit: limit, Key: key, Cost: 1})
			}
			w.Apply(rule.TakeUpTo, "", several...)
			w.Apply(rule.GiveBack, "", several[round:]...)
			compare()
			id := store.IDOf(fmt.Sprint(key, round))
			several = append(several, store.Charge{Limit: slots, Key: key, Cost: 1}, store.Charge{Limit: month, Key: key, Cost: 5, Used: 3})
			w.ApplyAs(id, rule.Take, "", several...)
			w.ApplyAs(id, rule.Renew, "", several...)
			w.ApplyAs(id, rule.Settle, "", several...)
			w.ApplyAs(id, rule.Settle, "", several...)
			compare()
		}
		w.Apply(rule.Take, "", store.Charge{Limit: limits[0], Key: "x", Cost: 1})
		w.Apply(rule.Take, "", store.Charge{Limit: limits[0], Key: "y", Cost: 1})
		compare()
	}
	if _, err := st.Expire(t.Context()); err != nil { // completely refunded keys no longer exist
		t.Fatal(err)
	}
	for _, limit := range limits {
		w.Apply(rule.Peek, "", store.Charge{Limit: limit, Cost: 1})
		w.Apply(rule.Take, "", store.Charge{Limit: limit, Cost: 1})
	}
	compare()
	w.Now += 1e12
	if deleted, err := st.Expire(t.Context()); deleted < int64(len(limits)) || err != nil {
		t.Fatalf("got %d rows deleted at their end, %v", deleted, err)
	}
	if deleted, err := st.Expire(t.Context()); deleted != 0 || err != nil {
		t.Fatalf("got %d rows left over, %v", deleted, err)
	}
}

var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
	pgx.QueryExecModeSimpleProtocol,
}

// poolIn returns connections that send statements in a mode.
func poolIn(t *testing.T, url string, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = mode
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// The store works in every mode of pgx.
func TestModes(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	for _, mode := range modes {
		pool := poolIn(t, server.URL(), mode)
		if err := pgstore.Migrate(t.Context(), pool, pgstore.Options{}); err != nil {
			t.Fatalf("Migrate in %v: %v", mode, err)
		}
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			exercise(t, func(opts pgstore.Options) *pgstore.Store { return newStore(t, pool, opts) })
		})
	}
}

// PgBouncer reassigns a connection after every transaction: nothing may depend on what was prepared or set in one.
func TestBouncer(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	url := pgtest.Bouncer(t, server)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		pool := poolIn(t, url, mode)
		if err := pgstore.Migrate(t.Context(), pool, pgstore.Options{}); err != nil {
			t.Fatalf("Migrate in %v: %v", mode, err)
		}
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			exercise(t, func(opts pgstore.Options) *pgstore.Store { return newStore(t, pool, opts) })
		})
	}
}

// The options about commits reach the functions, and apply only during the call.
func TestSynchronousCommit(t *testing.T) {
	t.Parallel()
	for _, opts := range []pgstore.Options{
		{SynchronousCommit: "on"}, {SynchronousCommit: "off"}, {Unlogged: true}, {Schema: "other-Schema", Prefix: "x_"},
	} {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			pool := database(t, opts)
			exercise(t, func(with pgstore.Options) *pgstore.Store {
				with.SynchronousCommit, with.Schema, with.Prefix = opts.SynchronousCommit, opts.Schema, opts.Prefix
				return newStore(t, pool, with)
			})
			for _, other := range []string{"on", "off"} {
				want := other
				if opts.SynchronousCommit != "" {
					want = opts.SynchronousCommit
				}
				checkCommit(t, pool, opts, other, want)
			}
		})
	}
}

// checkCommit inspects the transactions of calls just before they are committed. The server's synchronous_commit is other,
// and that of the calls should be want.
func checkCommit(t *testing.T, pool *pgxpool.Pool, opts pgstore.Options, other, want string) {
	t.Helper()
	for n := 1; n <= 3; n++ { // one key, several, and limits without a fast path
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		if _, err := conn.Exec(t.Context(), "SET synchronous_commit = "+other); err != nil {
			t.Fatal(err)
		}
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := pgstore.New(tx, opts)
		if err != nil {
			t.Fatal(err)
		}
		var batch []store.Request
		for _, limit := range [][]slidegate.Limit{porttest.Kinds()[:1], {porttest.Kinds()[0], porttest.Kinds()[2]}, porttest.Kinds()}[n-1] {
			charges := []store.Charge{{Limit: bind(t, "commit", limit), Cost: 1}}
			batch = append(batch, store.Request{Charges: charges, Answers: make([]rule.Answer, 1)})
		}
		if err := s.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		var inside, after string
		if err := tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&inside); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&after); err != nil {
			t.Fatal(err)
		}
		if inside != want || after != other {
			t.Errorf("path %d, %+v, on a connection with %s: got %s in a call, and %s afterwards", n, opts, other, inside, after)
		}
	}
}

// queryText returns the result of a statement as text.
func queryText(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) string {
	t.Helper()
	var value string
	if err := pool.QueryRow(context.Background(), statement, args...).Scan(&value); err != nil {
		t.Fatalf("%s failed: %v", statement, err)
	}
	return value
}

func queryNumber(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) int64 {
	t.Helper()
	var value int64
	if err := pool.QueryRow(context.Background(), statement, args...).Scan(&value); err != nil {
		t.Fatalf("%s failed: %v", statement, err)
	}
	return value
}
