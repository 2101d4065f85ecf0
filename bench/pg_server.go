package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/test/pgtest"
)

// pgURLEnv names a database to use instead of a server that this program starts.
const pgURLEnv = "DATABASE_URL"

const (
	pgSchema     = "slidegate_bench" // contains everything, and is dropped at the end
	pgFillfactor = 60                // so that updates find space next to the old row, which is best for all rows
)

// pgServer is the server under test, and the pool that all rows share.
type pgServer struct {
	pool *pgxpool.Pool
	end  func() // nil if this program did not start the server
}

// pgLines holds the settings of a server that this program starts that differ from the defaults. There are no checkpoints during a
// run, since they would affect only some rows.
var pgLines = []string{"shared_buffers = 256MB", "max_wal_size = 8GB", "checkpoint_timeout = 1h", "autovacuum_naptime = 1min"}

// openPG starts a server, or uses the one that DATABASE_URL names, and creates the tables.
func openPG(ctx context.Context, conns int) (*pgServer, error) {
	s, url := &pgServer{}, os.Getenv(pgURLEnv)
	if url == "" {
		var err error
		if url, s.end, err = pgtest.Open(pgLines...); err != nil {
			return nil, err
		}
	}
	if err := s.connect(ctx, url, conns); err != nil {
		s.stop()
		return nil, err
	}
	if err := s.makeTables(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *pgServer) connect(ctx context.Context, url string, conns int) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("%s: %w", pgURLEnv, err)
	}
	config.MaxConns = int32(conns)
	s.pool, err = pgxpool.NewWithConfig(ctx, config)
	return err
}

// makeTables creates a schema with the tables of all rows. It fails if the schema exists, since it is dropped at the end.
func (s *pgServer) makeTables(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, "CREATE SCHEMA "+pgSchema); err != nil {
		return fmt.Errorf("%s: the schema %s must not exist, since it is dropped at the end: %w", pgURLEnv, pgSchema, err)
	}
	for _, durable := range []bool{true, false} {
		kind := ""
		if !durable {
			kind = "UNLOGGED"
		}
		for _, table := range []struct{ name, columns string }{
			{counterTable(durable), "n bigint NOT NULL"},
			{windowTable(durable), "start timestamptz NOT NULL, current bigint NOT NULL, previous bigint NOT NULL"},
		} {
			statement := fmt.Sprintf("CREATE %s TABLE %s (key text PRIMARY KEY, %s) WITH (fillfactor = %d)", kind, table.name, table.columns, pgFillfactor)
			if _, err := s.pool.Exec(ctx, statement); err != nil {
				return s.undo(err)
			}
		}
		if err := pgstore.Migrate(ctx, s.pool, slidegateOptions(durable)); err != nil {
			return s.undo(err)
		}
	}
	return nil
}

// undo drops the tables after an error, and returns the error.
func (s *pgServer) undo(err error) error {
	s.dropTables()
	return err
}

func (s *pgServer) dropTables() {
	_, _ = s.pool.Exec(context.Background(), "DROP SCHEMA "+pgSchema+" CASCADE") // a server that does not answer keeps its tables
}

func counterTable(durable bool) string { return pgSchema + ".counter_" + durability(durable) }
func windowTable(durable bool) string  { return pgSchema + ".window_" + durability(durable) }

func slidegateOptions(durable bool) pgstore.Options {
	opts := pgstore.Options{Schema: pgSchema, Prefix: "slidegate_" + durability(durable) + "_"}
	if !durable {
		opts.Unlogged = true
	}
	return opts
}

// copyKeys fills one of the tables with rows of a key and further values.
func (s *pgServer) copyKeys(ctx context.Context, table, columns, values string, some keys) error {
	statement := fmt.Sprintf("INSERT INTO %s (key, %s) SELECT key, %s FROM unnest($1::text[]) AS key", table, columns, values)
	list := make([]string, some.n)
	for i := range list {
		list[i] = some.at(i)
	}
	_, err := s.pool.Exec(ctx, statement, list)
	return err
}

// cpu returns the CPU time of a server that this program started; 0 for another server, or if the system does not report it.
func (s *pgServer) cpu(ctx context.Context) (time.Duration, error) {
	if s.end == nil {
		return 0, nil
	}
	var folder string
	if err := s.pool.QueryRow(ctx, "SHOW data_directory").Scan(&folder); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(folder + "/postmaster.pid")
	if err != nil {
		return 0, nil
	}
	pid, _, _ := strings.Cut(string(text), "\n")
	return treeCPU(pid), nil
}

// close drops the tables, and stops the server if this program started it.
func (s *pgServer) close() {
	s.dropTables()
	s.stop()
}

func (s *pgServer) stop() {
	if s.pool != nil {
		s.pool.Close()
	}
	if s.end != nil {
		s.end()
	}
}
