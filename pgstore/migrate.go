package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schemaFiles are SQL for the schema public and the prefix slidegate_.
//
//go:embed schema/*.sql
var schemaFiles embed.FS

// schemaVersion is the version of the schema that the files create.
const schemaVersion = 1

// createSchema has the placeholders for the lock, the schema's name, the same as an identifier, the table of versions, the version, and the
// statements. It is one statement, so that it is carried out as a whole whoever runs it. (CREATE SCHEMA IF NOT EXISTS would need the privilege to
// create one even if it exists.)
const createSchema = `DO $migrate$
DECLARE
  existing int;
BEGIN
  PERFORM pg_advisory_xact_lock(%[1]d); -- one process at a time
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '%[2]s') THEN
    CREATE SCHEMA %[3]s;
  END IF;
  IF to_regclass('%[4]s') IS NOT NULL THEN
    SELECT max(m.version) INTO existing FROM %[4]s m;
  END IF;
  IF existing > %[5]d THEN
    RAISE EXCEPTION 'the schema has version %%, and this program knows version %[5]d', existing
      USING ERRCODE = '` + newerSchema + `', HINT = 'Upgrade this program.';
  END IF;
  IF existing IS NULL THEN
    EXECUTE $statements$
%[6]s$statements$;
  END IF;
END
$migrate$;
`

// Schema returns the statement that creates the tables and functions, or does nothing if they exist, and the one that drops them. They
// are for operators who do not let programs change a schema; Migrate runs the first one. It also creates Options.Schema if that does not
// exist; the second does not drop it.
func Schema(opts Options) (create, drop string, err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return "", "", err
	}
	read := func(name string) string {
		text, failed := schemaFiles.ReadFile("schema/" + name + ".sql")
		err = errors.Join(err, failed)
		return strings.ReplaceAll(string(text), "public.slidegate_", opts.prefix())
	}
	tables := read("tables")
	if opts.Unlogged {
		tables = strings.Replace(tables, "CREATE TABLE", "CREATE UNLOGGED TABLE", 1) // the state, which is the first
	}
	statements := tables
	for _, file := range []string{"rule", "holds", "request", "remember", "decide", "takes", "takes_any", "takes_default", "expire"} {
		statements += "\n" + read(file)
	}
	name := quote(opts.Schema)
	hash := fnv.New64a()
	hash.Write([]byte("slidegate " + name))
	create = fmt.Sprintf(createSchema, int64(hash.Sum64()), opts.Schema, name, opts.prefix()+"migrations", schemaVersion, statements)
	return create, read("drop"), err
}

// Migrate creates the tables and functions, or does nothing if they exist. Any number of processes may call it concurrently, at every
// start: one does the work, in one transaction, and the others wait for it. It needs the privilege to create in the schema, which the
// role that decides does not. A schema of a later version of this package is an error.
func Migrate(ctx context.Context, pool *pgxpool.Pool, opts Options) error {
	if pool == nil {
		return errors.New("pgstore: migrate: pool: must not be nil")
	}
	create, _, err := Schema(opts)
	if err != nil {
		return err
	}
	// Where the default is a stricter level, a process that waited would not see what another one has created.
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, create, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	switch {
	case err == nil:
		return nil
	case codeOf(err) == newerSchema:
		return fmt.Errorf("pgstore: migrate: %s: %w", fixes[newerSchema], err)
	}
	return fmt.Errorf("pgstore: migrate: %w", err)
}
