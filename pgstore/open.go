package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slidegate/slidegate/internal/connect"
	"github.com/slidegate/slidegate/internal/storeurl"
	"github.com/slidegate/slidegate/store"
)

// Open opens the store at a URL, migrates its schema to this version, and deletes rows that no longer matter while it is open:
//
//	postgres://USER:PASSWORD@HOST:PORT/DATABASE   ?slidegate_schema=TEXT &slidegate_prefix=TEXT &slidegate_unlogged=true
//	                                              &slidegate_synchronous_commit=off &slidegate_migrate=false
//
// The other parameters are those of libpq and of pgx's pool, such as sslmode=verify-full and pool_max_conns=20. In a user or password,
// the characters / ? # @ and % are percent-encoded. With slidegate_migrate=false, the schema must exist.
//
// The pool has at most 16 connections unless the URL has a pool_max_conns, and keeps two ready unless it has a pool_min_idle_conns.
// Statements are prepared when a connection is made, unless default_query_exec_mode is set to a mode without prepared statements.
//
// A server that is down is not an error: the store connects in the background, and until then requests fail. An invalid URL is an
// error, and so is a server that refuses the role, its password, the database or a privilege at the first attempt.
func Open(ctx context.Context, url string) (store.Connection, error) {
	return connect.Open(ctx, driverOf, url)
}

func init() { connect.Register(driverOf, "postgres", "postgresql") }

// driverOf returns the driver of a URL.
func driverOf(url string) (*connect.Driver, error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("pgstore: URL: %w", err)
	}
	offline, err := newStore(nil, t.store)
	if err != nil {
		return nil, fmt.Errorf("pgstore: URL: %w", storeurl.Errorf("%w", err))
	}
	driver := &connect.Driver{Offline: offline, Connect: t.connect}
	if t.mayBePlaintext() {
		driver.Warnings = []string{"the connection to PostgreSQL may be plain text; add sslmode=verify-full to the store's URL"}
	}
	return driver, nil
}

// sweepEvery is how often rows that are no longer needed are deleted.
const sweepEvery = time.Minute

// connect migrates the schema to this version and creates a pool. From then on, the pool reconnects automatically. It dials for no caller
// in particular: a dial goes on when the caller that needed it leaves.
func (t *target) connect(ctx context.Context, log *slog.Logger) (*connect.Link, error) {
	if err := t.prepare(ctx); err != nil {
		return nil, fault(err)
	}
	st, err := newStore(nil, t.store)
	if err != nil {
		return nil, err
	}
	config := t.pool.Copy()
	config.ShouldPing = isDoubtful
	if config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		config.AfterConnect = st.prepareStatements
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	st.db = pool
	sweeping, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		_ = st.Sweep(sweeping, sweepEvery, func(err error) { // returns only when sweeping ends
			log.Warn("old rows were not deleted; trying again later", slog.Any("error", err))
		})
	})
	return &connect.Link{Store: st, Close: func() {
		stop()
		running.Wait()
		pool.Close()
	}}, nil
}

// migrateTimeout is how long a migration may take; other processes may be migrating too.
const migrateTimeout = 30 * time.Second

// prepare checks that the server answers, and creates or migrates the schema. It has its own pool, because statements cannot be prepared
// before the schema exists.
func (t *target) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	config := t.pool.Copy()
	config.MinConns, config.MinIdleConns = 0, 0
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return err
	}
	if !t.migrate {
		return nil
	}
	return Migrate(ctx, pool, t.store)
}

// prepareStatements prepares the statements that decide on a new connection, so that no request has to wait for that. An error of the
// server, such as that a function does not exist, is left to the request that needs the statement.
func (s *Store) prepareStatements(ctx context.Context, conn *pgx.Conn) error {
	for _, statement := range []string{s.take, s.takeMany, s.takeAny, s.takeAnyMany, s.decideOne, s.decide} {
		_, err := conn.Prepare(ctx, statement, statement) // pgx looks statements up by their text
		var refused *pgconn.PgError
		if errors.As(err, &refused) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isDoubtful reports whether a connection has to be pinged before it is used: if it was idle for a while and the server has closed it.
// By default pgx pings all that were idle for a second, which doubles the time of the next request.
func isDoubtful(_ context.Context, p pgxpool.ShouldPingParams) bool {
	//lint:ignore SA1019 Ping takes a round trip, which is what CheckConn is still recommended to save
	return p.IdleDuration > time.Second && p.Conn.PgConn().CheckConn() != nil
}
