package faults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/pgtest"
)

// postgresServer is a PostgreSQL server.
type postgresServer struct{ *pgtest.Server }

func (s postgresServer) Signal(signal syscall.Signal) { s.Server.Signal(signal) }

func postgresFaults() []fault {
	open := func(t *testing.T) (server, func(string) string) {
		s := pgtest.Start(t, "fsync = off")
		return postgresServer{s}, func(addr string) string { return s.URLAt(addr) }
	}
	on := func(name string, atStart bool, make func(t *testing.T) setting) fault {
		return fault{"PostgreSQL", name, func(t *testing.T, _ program) setting {
			set := make(t)
			set.atStart = atStart
			return set
		}}
	}
	// statements is a fault that begins and ends with statements.
	statements := func(name string, begin, end []string) fault {
		return on(name, false, func(t *testing.T) setting {
			s := pgtest.Start(t, "fsync = off")
			return setting{url: s.URL(), begin: func() { s.Exec(begin...) }, end: func() { s.Exec(end...) }}
		})
	}
	return append(common("PostgreSQL", open),
		on("one row locked", false, func(t *testing.T) setting { return lockedRows(t, "0", 1) }),
		on("rows of four keys locked", false, func(t *testing.T) setting { return lockedRows(t, "%", keys) }),
		on("table locked", false, func(t *testing.T) setting {
			return inTransaction(t, pgtest.Start(t, "fsync = off"), "LOCK TABLE slidegate_state IN ACCESS EXCLUSIVE MODE", 0)
		}),
		statements("read-only", []string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"},
			[]string{"ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"}),
		on("rights revoked", false, func(t *testing.T) setting {
			s := pgtest.Start(t, "fsync = off")
			url := s.Role(t, "limiter", "CREATE, USAGE ON SCHEMA public")
			role := url[strings.Index(url, "//")+2:][:len("limiter_")+12]
			return setting{
				url:   url,
				begin: func() { s.Exec("REVOKE ALL ON slidegate_state FROM " + role) }, end: func() { s.Exec("GRANT ALL ON slidegate_state TO " + role) },
			}
		}),
		on("full", false, fullDatabase),
		on("connections used up", false, usedConnections),
		on("no such role at the start", true, func(t *testing.T) setting {
			s := pgtest.Start(t, "fsync = off")
			return setting{
				url:   strings.Replace(s.URL(), "postgres://postgres@", "postgres://stranger@", 1),
				begin: nothing, end: func() { s.Exec("CREATE ROLE stranger SUPERUSER LOGIN") },
			}
		}),
		on("no such database at the start", true, func(t *testing.T) setting {
			s := pgtest.Start(t, "fsync = off")
			url := s.URL()
			at := strings.LastIndexByte(url, '/')
			_, query, _ := strings.Cut(url[at:], "?")
			return setting{url: url[:at] + "/nowhere?" + query, begin: nothing, end: func() { s.Exec("CREATE DATABASE nowhere") }}
		}),
	)
}

// lockedRows locks the rows of keys that are not used up, in an open transaction.
func lockedRows(t *testing.T, which string, rows int64) setting {
	return inTransaction(t, pgtest.Start(t, "fsync = off"),
		fmt.Sprintf("SELECT * FROM slidegate_state WHERE address LIKE '%%:%s-%s' FOR UPDATE", fresh, which), rows)
}

// inTransaction is a fault that lasts as long as a transaction in which a statement was run that found some rows.
func inTransaction(t *testing.T, s *pgtest.Server, statement string, rows int64) setting {
	ctx, pool := context.Background(), s.Pool(t)
	tx, err := pool.Begin(ctx)
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(ctx) })
	return setting{
		url: s.URL(), known: true,
		begin: func() {
			if done, err := tx.Exec(ctx, statement); err != nil || done.RowsAffected() != rows {
				t.Errorf("locking rows: got %d, %v, want %d", done.RowsAffected(), err, rows)
			}
		},
		end: func() { testkit.NoError(t, tx.Rollback(ctx)) },
	}
}

// fullDatabase fills the disk that the table is on.
func fullDatabase(t *testing.T) setting {
	s := pgtest.Start(t, "fsync = off")
	s.Exec(fmt.Sprintf("ALTER DATABASE %s SET default_tablespace = %s", "postgres", s.SmallDisk(t, 8)))
	s.Exec("CREATE TABLE filler (x text)", "ALTER TABLE filler ALTER x SET STORAGE PLAIN")
	pool := s.Pool(t)
	return setting{
		url: s.URL(),
		begin: func() {
			for n := 4000; n > 0; n /= 2 { // until not even one row fits
				for {
					if _, err := pool.Exec(context.Background(), fmt.Sprintf("INSERT INTO filler SELECT repeat('x', 7000) FROM generate_series(1, %d)", n)); err != nil {
						break
					}
				}
			}
		},
		end: func() { s.Exec("DROP TABLE filler") },
	}
}

// usedConnections takes all connections of a server, and ends those of the service.
func usedConnections(t *testing.T) setting {
	s := pgtest.Start(t, "fsync = off", "max_connections = 20")
	pool := s.Pool(t, "pool_max_conns=30", "application_name=taker")
	ctx, cancel := context.WithCancel(context.Background())
	var taking sync.WaitGroup
	var release []func()
	take := func() {
		first, err := pool.Acquire(ctx)
		if err != nil {
			t.Errorf("taking connections: %v", err)
			return
		}
		release = append(release, first.Release)
		for ctx.Err() == nil {
			if c, err := pool.Acquire(ctx); err == nil {
				release = append(release, c.Release)
				continue
			}
			_, _ = first.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'taker'")
			pass(20 * time.Millisecond)
		}
	}
	return setting{
		url: s.URL("pool_max_conns=8"), begin: func() { taking.Go(take) },
		end: func() {
			cancel()
			taking.Wait()
			for _, r := range release {
				r()
			}
			pool.Reset()
		},
	}
}
