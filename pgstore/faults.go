package pgstore

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slidegate/slidegate/store"
)

// codeMarks has what the server's errors say about the store, by the code or its first two characters, the class. Whether the
// statement was carried out is a separate question: see isUndone.
var codeMarks = map[string][]error{
	"08": {store.ErrBusy}, // the connection broke
	"53": {store.ErrDown}, // disk full, out of memory
	"58": {store.ErrDown}, // input and output

	"53300": {store.ErrBusy}, // too many connections
	"53400": {store.ErrBusy},
	"25006": {store.ErrDown}, // read-only
	"08001": {store.ErrDown}, // there was none
	"57P01": {store.ErrBusy}, // the session was ended; if the server ends, it refuses the next one
	"57P05": {store.ErrBusy},
	"57P02": {store.ErrDown}, // crashed, not yet started, database dropped
	"57P03": {store.ErrDown},
	"57P04": {store.ErrDown},

	"28":    {store.ErrDown, store.ErrRefused}, // role or password
	"3D000": {store.ErrDown, store.ErrRefused}, // database
	"42501": {store.ErrDown, store.ErrRefused}, // privilege

	"42P01": {store.ErrDown}, // Migrate was not run
	"42704": {store.ErrDown},
	"42703": {store.ErrDown},
	"42883": {store.ErrDown},
	"3F000": {store.ErrDown},
}

// fault returns an error of a client as one that wraps what it means for the store and for the statement.
func fault(err error) error {
	var connect *pgconn.ConnectError
	connects := errors.As(err, &connect)
	code := codeOf(err)
	var marks []error
	switch {
	case strings.Contains(err.Error(), "no more connections allowed"): // PgBouncer, with the code of a protocol violation
		marks = []error{store.ErrBusy}
	case code != "":
		if marks = codeMarks[code]; marks == nil && len(code) >= 2 {
			marks = codeMarks[code[:2]]
		}
	case isClosed(err):
		marks = []error{store.ErrDown}
	default:
		if err = store.NetworkFault(err); connects && !errors.Is(err, store.ErrBusy) {
			marks = []error{store.ErrDown}
		}
	}
	if connects || isUndone(err, code) {
		marks = append(marks[:len(marks):len(marks)], store.ErrUndone)
	}
	return store.Fault(err, marks...)
}

// isUndone reports whether a statement was certainly not carried out: the server rolls back a statement that fails. If the session
// or the server ends, the statement may have been committed just before.
func isUndone(err error, code string) bool {
	switch {
	case code == "":
		return pgconn.SafeToRetry(err) || isClosed(err)
	case code == "57P03":
		return true
	}
	for _, unknown := range []string{"08", "57P", "XX", "40003"} {
		if strings.HasPrefix(code, unknown) {
			return false
		}
	}
	return true
}

// isClosed reports whether a pool was closed before the statement. pgx exports no error for that.
func isClosed(err error) bool { return strings.HasSuffix(err.Error(), "closed pool") }
