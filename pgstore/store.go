package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/internal/workload"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Store and its schema. The zero value is valid. Migrate and New need the same Schema and Prefix.
type Options struct {
	// Schema contains the table and the functions; empty means "public". Migrate creates it if it does not exist.
	Schema string
	// Prefix begins their names, in lower-case letters, digits and underscores; empty means "slidegate_".
	Prefix string
	// Grace is how long a state is kept after it no longer matters, before Expire deletes it; 0 means one minute. It
	// has to cover the difference between the clocks of a server and of a replica that takes over.
	Grace time.Duration
	// Unlogged makes Migrate create an unlogged table, which is faster to write, empty after a crash of the server, and not on
	// replicas. It does not change an existing table: use ALTER TABLE.
	Unlogged bool
	// SynchronousCommit is "on", "off", or empty for the setting of the server or the role. If it is off, a decision
	// does not wait for the disk, and a crash of the server loses what was charged in the last half second or so.
	SynchronousCommit string
	// Now replaces the server's clock, to decide and to expire, for tests and replays.
	Now func() rule.Micros
}

// Store keeps state in PostgreSQL. It is safe for concurrent use. The zero value is not usable; call New.
type Store struct {
	store.Registry // the limits of the limiters over this store

	db   DB
	opts Options

	// The statements.
	take, takeMany, takeAny, takeAnyMany, takeDefaultMany, decideOne, decide string
	expire, randomAddress, inspect                                           string
	loadDocument, swapDocument                                               string

	names shape.Names
}

const (
	maxCharges = 64  // per request
	maxCall    = 512 // work per call, see internal/workload: other callers of the same keys wait for it
	maxTries   = 4   // of a call that the server has rolled back
)

// DB runs statements as a *pgxpool.Pool does. It is safe for concurrent use.
type DB interface {
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}

// New returns a store over a *pgxpool.Pool, or over another DB. The caller has to close it. New does no I/O: a missing schema
// shows at the first request.
func New(db DB, opts Options) (*Store, error) {
	if db == nil || db == DB((*pgxpool.Pool)(nil)) {
		return nil, errors.New("pgstore: db: must not be nil; use pgxpool.New")
	}
	return newStore(db, opts)
}

// newStore returns a store over a pool. Without one, only Check and Traits may be called.
func newStore(db DB, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	name := opts.prefix()
	load, swap := documentStatements(name + "documents")
	return &Store{
		db: db, opts: opts, loadDocument: load, swapDocument: swap,
		// With types, because not every mode of pgx sends the types of parameters to the server.
		take: "SELECT " + name + `take($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint,
			$9::bigint, $10::bigint, $11::bigint)`,
		takeMany: "SELECT " + name + `take_many($1::text[], $2::bigint, $3::bigint, $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
			$8::bigint[])`,
		takeAny: "SELECT " + name + `take_any($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint,
			$9::bigint, $10::bigint, $11::bigint)`,
		takeAnyMany:     "SELECT " + name + "take_any_many($1::text[], $2::bigint[])",
		takeDefaultMany: "SELECT " + name + "take_default_many($1::text[], $2::bigint[])",
		decideOne:       "SELECT " + name + "decide_one($1::text, $2::bigint[])",
		decide:          "SELECT " + name + "decide($1::text[], $2::bigint[])",
		expire:          "SELECT deleted, seen, last FROM " + name + "expire($1::text, $2::bigint, $3::bigint, $4::bigint)",
		randomAddress:   "SELECT " + name + "random_address()",
		inspect:         inspectStatement(name),
	}, nil
}

// withDefaults returns the options with their defaults, or an error that names the field.
func (o Options) withDefaults() (Options, error) {
	if o.Schema == "" {
		o.Schema = "public"
	}
	if o.Prefix == "" {
		o.Prefix = "slidegate_"
	}
	if o.Grace == 0 {
		o.Grace = time.Minute
	}
	switch {
	case len(o.Schema) > 63 || !isPlainName(o.Schema, true):
		return o, fmt.Errorf("pgstore: schema: %q: use at most 63 visible ASCII characters, without quotes and braces", o.Schema)
	case len(o.Prefix) > 40 || !isPlainName(o.Prefix, false) || o.Prefix[0] >= '0' && o.Prefix[0] <= '9':
		return o, fmt.Errorf("pgstore: prefix: %q: use at most 40 lower-case letters, digits and underscores, not beginning with a digit", o.Prefix)
	case o.Grace < 0:
		return o, fmt.Errorf("pgstore: grace: must not be negative, got %v", o.Grace)
	case o.SynchronousCommit != "" && o.SynchronousCommit != "on" && o.SynchronousCommit != "off":
		return o, fmt.Errorf("pgstore: synchronous commit: %q: use on or off, or leave it empty for the server's setting", o.SynchronousCommit)
	}
	return o, nil
}

// isPlainName reports whether a text is valid in the names of a statement: of lower-case letters, digits and underscores, or,
// if quoted, of anything visible that is valid between quotes.
func isPlainName(text string, quoted bool) bool {
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
		case quoted && c > ' ' && c <= '~' && c != '"' && c != '\'' && c != '{' && c != '}' && c != '$' && c != '\\':
		default:
			return false
		}
	}
	return true
}

// prefix returns the beginning of the names of the tables and functions, with the schema.
func (o *Options) prefix() string { return quote(o.Schema) + "." + o.Prefix }

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// Traits returns the traits of the store.
func (s *Store) Traits() store.Traits {
	return store.Traits{
		Name: "postgres", ServerClock: true, MaxCharges: maxCharges, RoundTrips: 1,
		// Every call waits for a commit, so one at a time decides as much as two, in fewer and larger calls. A row that is locked
		// does not block others for long: coalesce starts more calls when those under way have lasted some milliseconds.
		Calls: 1,
		// pgx closes the connection of a call that is canceled.
		CostlyCancel: true,
	}
}

// Check accepts every limit: the functions are exact over the whole range of limits.
func (s *Store) Check(*store.Limit) error { return nil }

// Apply decides a batch of requests in one call of a function, or in several consecutive calls if it is very large.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	if err := ctx.Err(); err != nil {
		return batches.FailAll(batch, err)
	}
	for rest := batch; len(rest) > 0; {
		n := callSize(rest)
		s.applySome(ctx, rest[:n])
		rest = rest[n:]
	}
	return batches.FirstError(batch)
}

// callSize returns how many requests, from the first on, go into one call.
func callSize(batch []store.Request) int {
	work, last := 0, (*store.Request)(nil)
	for i := range batch {
		if work += workload.Of(&batch[i], last); work > maxCall && i > 0 {
			return i
		}
		last = &batch[i]
	}
	return len(batch)
}

// prefix returns the part of an address that belongs to a limit.
func (s *Store) prefix(limit *store.Limit) string {
	return s.names.Of(limit.ID(), func() string { return limitPrefix(limit) })
}

// now returns the time for the functions, or -1 for the server's clock.
func (s *Store) now() int64 {
	if s.opts.Now == nil {
		return -1
	}
	return int64(s.opts.Now())
}

// commit returns SynchronousCommit as a parameter of the functions.
func (s *Store) commit() int64 {
	switch s.opts.SynchronousCommit {
	case "off":
		return 1
	case "on":
		return 2
	default:
		return 0
	}
}
