package pgstore

import (
	"context"
	"errors"
	"fmt"
)

// Codes of errors that need special treatment.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	otherFormat          = "SG001" // raised by the functions
	newerSchema          = "SG002" // raised by Migrate
)

// fixes has remedies for errors that an operator can do something about.
var fixes = map[string]string{
	"42P01":          "the table does not exist; run Migrate with the same Schema and Prefix",
	"42704":          "a type does not exist; run Migrate with the same Schema and Prefix",
	"42883":          "the function does not exist; run Migrate with the same Schema and Prefix",
	"3F000":          "the schema does not exist; run Migrate with the same Schema and Prefix",
	"42703":          "the table is of another version; run Migrate",
	"42501":          "the role lacks a privilege; it needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on the table",
	"25006":          "the server is a replica or read-only; connect to the primary (target_session_attrs=read-write)",
	"53100":          "the server's disk is full; free some space (refusals still work, decisions that have to be written do not)",
	"53300":          "the server accepts no more connections; make the pool smaller, or use PgBouncer",
	"57014":          "the server canceled the call; statement_timeout is shorter than the wait for other callers of the same keys",
	"55P03":          "lock_timeout is shorter than the wait for other callers of the same keys",
	"26000":          "a prepared statement does not exist; behind PgBouncer use pgx.QueryExecModeExec",
	"42P05":          "a prepared statement already exists; behind PgBouncer use pgx.QueryExecModeExec",
	"08P01":          "protocol violation; behind PgBouncer use pgx.QueryExecModeExec",
	otherFormat:      "this state was written by another version of Slidegate; upgrade this program",
	newerSchema:      "the schema was created by a newer version of Slidegate; upgrade this program",
	deadlockDetected: "another transaction locked the same keys in another order; only this package should write to the table",
	serializationFailure: "the same keys were charged concurrently, and the isolation level does not allow reading them again; " +
		"set default_transaction_isolation = 'read committed' for the role",
}

// explain adds to an error what is wrong and what to do. It wraps the cause, and the context's error if the context has
// ended; otherwise also what the error means, see fault.
func explain(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("pgstore: %w: %w", ended, err)
	}
	if fix := fixes[codeOf(err)]; fix != "" {
		return fmt.Errorf("pgstore: %s: %w", fix, fault(err))
	}
	return fmt.Errorf("pgstore: %w", fault(err))
}
