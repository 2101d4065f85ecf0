package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool returns a pool of connections to a database, which is closed with the test. Connections are made when they are
// first needed, so the server need not run yet.
func Pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatalf("pgtest: no pool: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close() // waits for connections that are in use
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(patience):
			t.Error("pgtest: a connection was not returned to its pool")
		}
	})
	return pool
}
