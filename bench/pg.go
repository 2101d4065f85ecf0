package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/test/pgtest"
)

const (
	pgKeys    = 100_000
	pgRounds  = 9  // at most, so that no run takes long
	pgCallers = 64 // at most
	// pgQuota is more than the requests for any key in a run.
	pgQuota = 1_000_000_000_000
)

// pgLoad is the load of the limiters.
type pgLoad struct {
	name  string
	hot   bool // one key; otherwise many
	quota int64
	share float64 // the share of the requests that is admitted
}

// pgLoads returns the loads. Every key is used once before the timed rounds, which uses up a quota of 1.
func pgLoads() []pgLoad {
	return []pgLoad{
		{"many keys, admitted", false, pgQuota, 1}, {"one key, admitted", true, pgQuota, 1},
		{"many keys, refused", false, 1, 0}, {"one key, refused", true, 1, 0},
	}
}

// pgCell identifies the row and the table of a sample.
type pgCell struct {
	row, load string
	durable   bool
	callers   int
}

// pgTables measures limiters that keep their state in PostgreSQL, all on one server.
func (r *run) pgTables() ([]*table, error) {
	rows := r.pgRows()
	settings := &table{title: "PostgreSQL: what is measured", columns: []string{"part", "settings"}, names: 2}
	if len(rows) == 1 {
		settings.note("Left out: -only names no limiter that is measured with PostgreSQL.")
		return []*table{settings}, nil
	}
	ctx := context.Background()
	server, err := openPG(ctx, r.conns)
	if errors.Is(err, pgtest.ErrNoServer) {
		settings.note("Left out: postgres is missing, and %s is not set. Install the package postgresql.", pgURLEnv)
		return []*table{settings}, nil
	}
	if err != nil {
		return nil, err
	}
	defer server.close()
	if err := r.pgSettings(ctx, settings, server); err != nil {
		return nil, err
	}
	samples, err := r.timePG(ctx, server, rows)
	if err != nil {
		return nil, err
	}
	tables := []*table{settings}
	for _, durable := range []bool{true, false} {
		for _, load := range pgLoads() {
			tables = append(tables, r.pgTable(rows, load, durable, samples))
		}
	}
	return tables, nil
}

// pgSettings lists the settings that the figures depend on.
func (r *run) pgSettings(ctx context.Context, t *table, server *pgServer) error {
	var values []string
	for _, name := range []string{"server_version", "shared_buffers", "fsync", "synchronous_commit", "max_wal_size"} {
		var value string
		if err := server.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return err
		}
		values = append(values, name+" "+value)
	}
	origin := "named by " + pgURLEnv
	if server.end != nil {
		origin = "started for this run"
	}
	pool := server.pool.Config()
	t.add("server", origin+": "+strings.Join(values, ", "))
	t.add("this program", fmt.Sprintf("GOMAXPROCS %d, on the processors that the server also uses", runtime.GOMAXPROCS(0)))
	t.add("pool", fmt.Sprintf("one of pgx for all rows: at most %d connections over %s, statements prepared (%s)",
		pool.MaxConns, network(pool.ConnConfig.Host), pool.ConnConfig.DefaultQueryExecMode))
	t.add("load", fmt.Sprintf("%s keys, each as likely as any other, or one; %g an hour, or 1 where all is refused", count(r.pgKeys()), float64(pgQuota)))
	t.add("tables", fmt.Sprintf("logged and unlogged; those of the transaction and of UPDATE with fillfactor %d", pgFillfactor))
	return nil
}

func network(host string) string {
	if strings.HasPrefix(host, "/") {
		return "a Unix socket"
	}
	return "TCP"
}

// timePG times all rows, the rounds interleaved. All tables are filled before the first.
func (r *run) timePG(ctx context.Context, server *pgServer, rows []pgRow) (map[pgCell]remoteSamples, error) {
	all := newKeys(0, r.pgKeys())
	many, one := all.uniform(1<<17, 1), newKeys(pgKeys, 1)
	if err := r.fillPG(ctx, server, rows, all, one); err != nil {
		return nil, err
	}
	samples := map[pgCell]remoteSamples{}
	for round := range r.pgRounds() {
		for _, durable := range []bool{true, false} {
			for _, load := range pgLoads() {
				r.logf("pg, %s, %s: round %d of %d", load.name, durability(durable), round+1, r.pgRounds())
				list := many
				if load.hot {
					list = one
				}
				for _, callers := range r.pgCallers() {
					if err := r.timePGRows(ctx, server, rows, round, pgCell{"", load.name, durable, callers}, load, list, samples); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return samples, nil
}

// timePGRows times all rows of one cell right after one another, under the same conditions of the disk and the machine.
func (r *run) timePGRows(ctx context.Context, server *pgServer, rows []pgRow, round int, at pgCell, load pgLoad, list keys, into map[pgCell]remoteSamples) error {
	for i := range rows {
		row := &rows[(i+round)%len(rows)]
		allow, err := row.open(server, spec{quota: load.quota, window: quotaWindow}, at.durable)
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		one, err := timeCallers(ctx, server, allow, list, at.callers, r.pgTime())
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		at.row = row.name
		into[at] = append(into[at], one)
	}
	return nil
}

// fillPG puts all keys into all tables, each used once, and prepares the statements on every connection.
func (r *run) fillPG(ctx context.Context, server *pgServer, rows []pgRow, all, one keys) error {
	for i := range rows {
		row := &rows[i]
		for _, durable := range []bool{true, false} {
			if row.fill == nil {
				continue
			}
			r.logf("pg: filling the %s table of %s", durability(durable), row.name)
			for _, some := range []keys{all, one} {
				if err := row.fill(ctx, server, durable, some); err != nil {
					return fmt.Errorf("%s: %w", row.name, err)
				}
			}
		}
	}
	for i := range rows {
		for _, durable := range []bool{true, false} {
			allow, err := rows[i].open(server, spec{quota: pgQuota, window: quotaWindow}, durable)
			if err != nil {
				return err
			}
			if _, err := timeCallers(ctx, server, allow, all, r.conns, r.pgTime()); err != nil {
				return fmt.Errorf("%s: %w", rows[i].name, err)
			}
		}
	}
	_, err := server.pool.Exec(ctx, "VACUUM ANALYZE")
	return err
}

func durability(durable bool) string {
	if durable {
		return "logged"
	}
	return "unlogged"
}

func (r *run) pgKeys() int {
	if r.quick {
		return min(r.keys, pgKeys/100)
	}
	return min(r.keys, pgKeys)
}

func (r *run) pgRounds() int {
	if r.quick {
		return 1
	}
	return min(r.rounds, pgRounds)
}

// pgCallers returns the selected numbers of callers, up to the usual number of connections to PostgreSQL.
func (r *run) pgCallers() []int {
	some := slices.DeleteFunc(slices.Clone(r.callers), func(n int) bool { return n > pgCallers })
	if len(some) == 0 {
		return []int{pgCallers}
	}
	return some
}

// pgTime is how long one row is timed in a round.
func (r *run) pgTime() time.Duration {
	if r.quick {
		return 20 * time.Millisecond
	}
	return 300 * time.Millisecond
}
