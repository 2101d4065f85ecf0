package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// apply sends one request with one charge.
func apply(t testing.TB, s *pgstore.Store, op rule.Op, charge store.Charge) rule.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var answers [1]rule.Answer
	err := s.Apply(ctx, []store.Request{{Op: op, Charges: []store.Charge{charge}, Answers: answers[:]}})
	if err != nil {
		t.Fatal(err)
	}
	return answers[0]
}

// codeOf returns the code of a server's error, or "" for other errors.
func codeOf(err error) string {
	if cause, ok := errors.AsType[*pgconn.PgError](err); ok {
		return cause.Code
	}
	return ""
}

// serverTime returns the server's time in microseconds, exactly.
func serverTime(t testing.TB, pool *pgxpool.Pool) rule.Micros {
	t.Helper()
	return rule.Micros(queryNumber(t, pool, "SELECT (extract(epoch FROM date_trunc('second', c))::bigint * 1000000 + extract(microsecond FROM c)::bigint % 1000000)"+
		" FROM (SELECT clock_timestamp() AS c) c"))
}

// nextXID returns a number that grows with every transaction that wrote something.
func nextXID(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	return queryText(t, pool, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
}
