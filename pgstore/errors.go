package pgstore

import (
	"context"
	"errors"
	"fmt"
)

// The codes of errors that there is something to say about.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	newerFormat          = "SG001" // the functions' own
)

// fixes says what to do about errors that whoever set the server up can do something about.
var fixes = map[string]string{
	"42P01":          "the table is not there: run Migrate with the same Schema and Prefix",
	"42704":          "a type is not there: run Migrate with the same Schema and Prefix",
	"42883":          "the function is not there: run Migrate with the same Schema and Prefix",
	"3F000":          "the schema is not there: run Migrate with the same Schema and Prefix",
	"42703":          "the table is of another version: run Migrate",
	"42501":          "the role lacks a right: it needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on the table",
	"25006":          "the server is a replica or read-only: connect to the primary (target_session_attrs=read-write)",
	"53100":          "the server's disk is full: make room; refusals still work, what has to be written does not",
	"53300":          "the server takes no more connections: make the pool smaller, or put PgBouncer in front",
	"57014":          "the server ended the call: statement_timeout is shorter than the wait for others who charge the same keys",
	"55P03":          "lock_timeout is shorter than the wait for others who charge the same keys",
	"26000":          "a prepared statement is gone: behind PgBouncer use pgx.QueryExecModeExec",
	"42P05":          "a prepared statement is there already: behind PgBouncer use pgx.QueryExecModeExec",
	"08P01":          "the other end expects something else: behind PgBouncer use pgx.QueryExecModeExec",
	newerFormat:      "a newer version of Slidegate wrote this state: upgrade this program",
	deadlockDetected: "others locked the same keys in another order: nobody but this package should write to the table",
	serializationFailure: "others charged the same keys, and the isolation level forbids to look again: " +
		"let the role have default_transaction_isolation = 'read committed'",
}

// explain makes an error say what the matter is and what helps. It wraps the cause, and the context's error if the context has ended.
func explain(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("pgstore: %w: %w", ended, err)
	}
	if fix := fixes[codeOf(err)]; fix != "" {
		return fmt.Errorf("pgstore: %s: %w", fix, err)
	}
	return fmt.Errorf("pgstore: %w", err)
}
