package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Beginner begins transactions: a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Migrate creates the schema, or upgrades it to this version. Any number of processes may call it concurrently, at
// every start: one does the work in one transaction, the others wait for it. Tables and functions that a tool created
// from Migrations, all or some of them, are recognized. It needs the privilege to create in the schema, which the role
// that decides does not.
func Migrate(ctx context.Context, db Beginner, opts Options) error {
	if db == nil {
		return errors.New("pgstore: migrate: db: must not be nil")
	}
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit it does nothing
	err = migrate(opts, schema{
		exec: func(statement string) error {
			_, err := tx.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
			return err
		},
		number: func(statement string) (n int, err error) {
			err = tx.QueryRow(ctx, statement, pgx.QueryExecModeSimpleProtocol).Scan(&n)
			return n, err
		},
	})
	if err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	return nil
}

// MigrateSQL is Migrate over a database/sql pool.
func MigrateSQL(ctx context.Context, db *sql.DB, opts Options) error {
	if db == nil {
		return errors.New("pgstore: migrate: db: must not be nil")
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	err = migrate(opts, schema{
		exec: func(statement string) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		},
		number: func(statement string) (n int, err error) {
			err = tx.QueryRowContext(ctx, statement).Scan(&n)
			return n, err
		},
	})
	if err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	return nil
}

// schema is the part of a transaction that migrate needs: one statement at a time, without parameters.
type schema struct {
	exec   func(statement string) error
	number func(statement string) (int, error)
}

// migrate applies the steps that a schema does not have yet. A schema that was created by other means, without a table
// of versions, gets all steps: they leave existing objects unchanged.
func migrate(opts Options, db schema) error {
	steps, err := Migrations(opts)
	if err != nil {
		return err
	}
	if opts, err = opts.withDefaults(); err != nil {
		return err
	}
	if err := db.exec(fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", opts.lock())); err != nil {
		return err
	}
	version, err := db.number(fmt.Sprintf(
		"SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = '%s' AND tablename = '%smigrations'", opts.Schema, opts.Prefix))
	if err == nil && version > 0 {
		version, err = db.number("SELECT coalesce(max(version), 0) FROM " + opts.versions())
	}
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step.Version <= version {
			continue
		}
		// As one statement, because not every driver accepts several.
		if err := db.exec("DO $migration$ BEGIN EXECUTE $statements$" + step.Up + "$statements$; END $migration$"); err != nil {
			return fmt.Errorf("step %d, %s: %w", step.Version, step.Name, err)
		}
	}
	return nil
}
