package stores

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
)

// postgresRulings keeps rulings in one table and the log of changes in another, whose last ID is the version. The tables are
// created by the first change, unless the URL forbids creating tables.
type postgresRulings struct {
	pool       *pgxpool.Pool
	table, log string
	migrate    bool
}

func (t *postgresTarget) newRulings(pool *pgxpool.Pool) *postgresRulings {
	name := func(last string) string {
		return pgx.Identifier{cmp.Or(t.store.Schema, "public"), cmp.Or(t.store.Prefix, "slidegate_") + last}.Sanitize()
	}
	return &postgresRulings{pool: pool, table: name("rulings"), log: name("rulings_log"), migrate: t.migrate}
}

// isMissing reports whether an error means that a table does not exist.
func isMissing(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == undefinedTable
}

func (k *postgresRulings) Load(ctx context.Context, known int64) (all []rulings.Ruling, version int64, err error) {
	const last = "SELECT coalesce(max(id), 0) FROM "
	switch err := k.pool.QueryRow(ctx, last+k.log).Scan(&version); {
	case isMissing(err):
		return nil, 0, nil // there were no changes yet
	case err != nil:
		return nil, 0, failed("postgres", err)
	case version == known:
		return nil, known, nil
	}
	var texts []string
	query := "SELECT (" + last + k.log + "), coalesce((SELECT array_agg(ruling) FROM " + k.table + "), '{}')" // a single snapshot
	if err := k.pool.QueryRow(ctx, query).Scan(&version, &texts); err != nil {
		return nil, 0, failed("postgres", err)
	}
	for _, text := range texts {
		if all, err = appendRuling(all, text); err != nil {
			return nil, 0, failed("postgres", err)
		}
	}
	return all, version, nil
}

func (k *postgresRulings) Apply(ctx context.Context, change rulings.Ruling, stale []rulings.Ruling) error {
	err := k.apply(ctx, &change, stale)
	if isMissing(err) && k.migrate {
		if err = k.create(ctx); err == nil {
			err = k.apply(ctx, &change, stale)
		}
	}
	switch {
	case errors.Is(err, rulings.ErrNone), errors.Is(err, rulings.ErrFull):
		return fmt.Errorf("stores: %w", err)
	case isMissing(err):
		return failed("postgres", fmt.Errorf("the tables of rulings do not exist, and slidegate_migrate=false forbids creating them; docs/postgres.md has their SQL: %w", err))
	case err != nil:
		return failed("postgres", err)
	}
	return nil
}

// create creates the tables.
func (k *postgresRulings) create(ctx context.Context) error {
	return pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
		// Concurrent attempts would conflict.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", k.table); err != nil {
			return err
		}
		for _, statement := range []string{
			"CREATE TABLE IF NOT EXISTS " + k.table + " (id bytea PRIMARY KEY, ruling text NOT NULL)",
			"CREATE TABLE IF NOT EXISTS " + k.log + " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, change text NOT NULL)",
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// apply makes a change in a transaction. Changes are serialized, so that they become visible in the order of their IDs.
func (k *postgresRulings) apply(ctx context.Context, change *rulings.Ruling, stale []rulings.Ruling) error {
	return pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE "+k.table+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		for i := range stale {
			_, err := tx.Exec(ctx, "DELETE FROM "+k.table+" WHERE id = $1 AND ruling = $2", rulingID(&stale[i]), string(stale[i].Text()))
			if err != nil {
				return err
			}
		}
		if err := k.put(ctx, tx, change); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO "+k.log+" (change) VALUES ($1)", string(change.Text())); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM "+k.log+" WHERE id <= (SELECT id FROM "+k.log+" ORDER BY id DESC OFFSET $1 LIMIT 1)", rulings.MaxLog)
		return err
	})
}

// put changes the ruling for a key.
func (k *postgresRulings) put(ctx context.Context, tx pgx.Tx, change *rulings.Ruling) error {
	if change.Kind == rulings.Clear {
		done, err := tx.Exec(ctx, "DELETE FROM "+k.table+" WHERE id = $1", rulingID(change))
		if err == nil && done.RowsAffected() == 0 {
			err = rulings.ErrNone
		}
		return err
	}
	done, err := tx.Exec(ctx, "INSERT INTO "+k.table+" AS kept (id, ruling) SELECT $1, $2 WHERE (SELECT count(*) FROM "+k.table+
		" WHERE id <> $1) < $3 ON CONFLICT (id) DO UPDATE SET ruling = excluded.ruling", rulingID(change), string(change.Text()), rulings.MaxRulings)
	if err == nil && done.RowsAffected() == 0 {
		err = rulings.ErrFull
	}
	return err
}

// rulingID returns a hash of the policy and the key of a ruling, since a key may be too long for an index.
func rulingID(r *rulings.Ruling) []byte {
	sum := sha256.Sum256([]byte(r.Name()))
	return sum[:]
}

func (k *postgresRulings) Log(ctx context.Context, n int) (all []rulings.Ruling, err error) {
	rows, err := k.pool.Query(ctx, "SELECT change FROM "+k.log+" ORDER BY id DESC LIMIT $1", n)
	if err == nil {
		var lines []string
		if lines, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
			for _, line := range lines {
				if all, err = appendRuling(all, line); err != nil {
					break
				}
			}
		}
	}
	switch {
	case isMissing(err):
		return nil, nil
	case err != nil:
		return nil, failed("postgres", err)
	}
	return all, nil
}
