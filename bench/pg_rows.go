package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/store"
)

// pgRow is a row of the PostgreSQL tables.
type pgRow struct {
	name, family, algorithm string
	open                    func(server *pgServer, s spec, durable bool) (remoteAllow, error)
	// fill puts keys into the row's table as if each had been used once; nil if another row has the same table.
	fill func(ctx context.Context, server *pgServer, durable bool, some keys) error
}

// The rows that the others are compared with.
const (
	rowTransaction = "transaction"    // what limiters in PostgreSQL do today
	rowUpdateAlone = "(UPDATE alone)" // not a limiter: the least work without combining requests
	alone          = "slidegate"
)

func pgRows() []pgRow {
	rows := []pgRow{{alone, own, "sliding window", slidegatePGOpener(0), fillSlidegatePG}}
	for _, inFlight := range []int{1, 2, 4} {
		rows = append(rows, pgRow{fmt.Sprintf("slidegate, coalesce %d", inFlight), own, "sliding window", slidegatePGOpener(inFlight), nil})
	}
	return append(rows,
		pgRow{rowTransaction, "pg-transaction", "sliding window", openTransaction, fillTransaction},
		pgRow{rowUpdateAlone, "", "count", openUpdate, fillUpdate})
}

// pgRows returns the selected rows, and the one that all are compared with.
func (r *run) pgRows() []pgRow {
	rows := slices.DeleteFunc(pgRows(), func(row pgRow) bool {
		return row.family != "" && len(r.only) > 0 && !slices.Contains(r.only, row.family)
	})
	return rows
}

// slidegatePGOpener drives the store through Limiter.Allow, which makes the whole Decision: alone, or under the layer that combines
// concurrent requests, with inFlight concurrent calls.
func slidegatePGOpener(inFlight int) func(*pgServer, spec, bool) (remoteAllow, error) {
	return func(server *pgServer, s spec, durable bool) (remoteAllow, error) {
		var store store.Store
		store, err := pgstore.New(server.pool, slidegateOptions(durable))
		if err != nil {
			return nil, err
		}
		if inFlight > 0 {
			store = coalesce.New(store, coalesce.Options{InFlight: inFlight})
		}
		l, err := slidegate.New(store, slidegate.Limit{Quota: s.quota, Window: s.window, Algorithm: slidegate.SlidingWindow})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, key string) (bool, error) {
			d, err := l.Allow(ctx, key)
			return d.Allowed, err
		}, nil
	}
}

// fillSlidegatePG uses every key once, many per call.
func fillSlidegatePG(ctx context.Context, server *pgServer, durable bool, some keys) error {
	allow, err := slidegatePGOpener(2)(server, spec{quota: pgQuota, window: quotaWindow}, durable)
	if err != nil {
		return err
	}
	callers := min(512, some.n)
	return newCrew(callers).run(func(i int, c *caller) error {
		for at := i; at < some.n; at += callers {
			if err := c.send(ctx, allow, some.at(at)); err != nil {
				return err
			}
		}
		return nil
	})
}

// openTransaction is what limiters in PostgreSQL do today: a transaction that creates the row if it does not exist, locks and reads
// it, decides in the program, and writes the result, in five round trips.
func openTransaction(server *pgServer, s spec, durable bool) (remoteAllow, error) {
	table := windowTable(durable)
	insert := fmt.Sprintf("INSERT INTO %s (key, start, current, previous) VALUES ($1, now(), 0, 0) ON CONFLICT (key) DO NOTHING", table)
	read := fmt.Sprintf("SELECT start, current, previous, clock_timestamp() FROM %s WHERE key = $1 FOR UPDATE", table)
	write := fmt.Sprintf("INSERT INTO %s (key, start, current, previous) VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO UPDATE "+
		"SET start = excluded.start, current = excluded.current, previous = excluded.previous", table)
	return func(ctx context.Context, key string) (allowed bool, err error) {
		err = pgx.BeginFunc(ctx, server.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, insert, key); err != nil {
				return err
			}
			var w pgWindow
			var now time.Time
			if err := tx.QueryRow(ctx, read, key).Scan(&w.start, &w.current, &w.previous, &now); err != nil {
				return err
			}
			if allowed = w.take(now, s); !allowed {
				return nil
			}
			_, err := tx.Exec(ctx, write, key, w.start, w.current, w.previous)
			return err
		})
		return allowed && err == nil, err
	}, nil
}

// pgWindow is the state of a key: the window, and the one before it.
type pgWindow struct {
	start             time.Time
	current, previous int64
}

// take charges a unit if one is left. The previous window counts in proportion to how much of it is still in view.
func (w *pgWindow) take(now time.Time, s spec) bool {
	switch passed := now.Sub(w.start); {
	case passed >= 2*s.window:
		*w = pgWindow{start: now}
	case passed >= s.window:
		*w = pgWindow{start: w.start.Add(s.window), previous: w.current}
	}
	left := 1 - float64(now.Sub(w.start))/float64(s.window)
	if float64(w.current)+float64(w.previous)*left+1 > float64(s.quota) {
		return false
	}
	w.current++
	return true
}

func fillTransaction(ctx context.Context, server *pgServer, durable bool, some keys) error {
	return server.copyKeys(ctx, windowTable(durable), "start, current, previous", "now(), 1, 0", some)
}

// openUpdate only counts requests: no window, no limit, no result.
func openUpdate(server *pgServer, _ spec, durable bool) (remoteAllow, error) {
	statement := fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE key = $1", counterTable(durable))
	return func(ctx context.Context, key string) (bool, error) {
		tag, err := server.pool.Exec(ctx, statement, key)
		return err == nil && tag.RowsAffected() == 1, err
	}, nil
}

func fillUpdate(ctx context.Context, server *pgServer, durable bool, some keys) error {
	return server.copyKeys(ctx, counterTable(durable), "n", "1", some)
}
