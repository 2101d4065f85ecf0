package pgstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one step in making the schema.
type Migration struct {
	Version int    // 1, 2, ...: each is applied once, in order
	Name    string // such as "state"
	SQL     string // one or more statements, for the Schema, Prefix and Durability of some Options
}

// Migrations returns the steps, for those who apply them by a tool of their own. Whoever does so need not call Migrate.
func Migrations(opts Options) ([]Migration, error) {
	opts, err := opts.normal()
	if err != nil {
		return nil, err
	}
	unlogged := ""
	if opts.Durability == Unlogged {
		unlogged = "UNLOGGED"
	}
	fill := strings.NewReplacer("{schema}", quote(opts.Schema), "{prefix}", opts.Prefix, "CREATE {unlogged} TABLE",
		strings.Join(strings.Fields("CREATE "+unlogged+" TABLE"), " "))
	entries, err := migrationFiles.ReadDir("migrations") // in the order of their names
	if err != nil {
		return nil, err
	}
	var all []Migration
	for _, entry := range entries {
		number, name, _ := strings.Cut(strings.TrimSuffix(entry.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		text, err := migrationFiles.ReadFile("migrations/" + entry.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, Migration{version, name, fill.Replace(string(text))})
	}
	return all, nil
}

// Beginner begins transactions: a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Migrate creates the schema, or brings it to this version. Any number of processes may call it at the same time, at every start:
// one does the work in one transaction, the others wait for it. It needs the right to create in the schema, which the role that
// decides does not.
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

// MigrateSQL is Migrate over a pool of the package database/sql.
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

// schema is a transaction, as far as migrate needs it: one statement at a time, without parameters.
type schema struct {
	exec   func(statement string) error
	number func(statement string) (int, error)
}

func migrate(opts Options, db schema) error {
	steps, err := Migrations(opts)
	if err != nil {
		return err
	}
	if opts, err = opts.normal(); err != nil {
		return err
	}
	table := quote(opts.Schema) + "." + opts.Prefix + "migrations"
	hash := fnv.New64a()
	hash.Write([]byte("slidegate " + table))
	if err := db.exec(fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", int64(hash.Sum64()))); err != nil {
		return err
	}
	// What is there already is not created: the role may lack the right to, and IF NOT EXISTS asks for it all the same.
	there, err := db.number(fmt.Sprintf("SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = '%s'", opts.Schema))
	if err == nil && there == 0 {
		err = db.exec("CREATE SCHEMA " + quote(opts.Schema))
	}
	if err != nil {
		return err
	}
	there, err = db.number(fmt.Sprintf(
		"SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = '%s' AND tablename = '%smigrations'", opts.Schema, opts.Prefix))
	if err == nil && there == 0 {
		err = db.exec("CREATE TABLE " + table + " (version int PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now())")
	}
	if err != nil {
		return err
	}
	return apply(db, table, steps)
}

// apply applies the steps that a schema does not have yet.
func apply(db schema, table string, steps []Migration) error {
	version, err := db.number("SELECT coalesce(max(version), 0) FROM " + table)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step.Version <= version {
			continue
		}
		// As one statement, because not every driver takes several at once.
		if err := db.exec("DO $migration$ BEGIN EXECUTE $statements$" + step.SQL + "$statements$; END $migration$"); err != nil {
			return fmt.Errorf("step %d, %s: %w", step.Version, step.Name, err)
		}
		if err := db.exec(fmt.Sprintf("INSERT INTO %s (version, name) VALUES (%d, '%s')", table, step.Version, step.Name)); err != nil {
			return err
		}
	}
	return nil
}
