package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Durability is whether the table of a store survives a crash of the server.
type Durability uint8

// Durability levels.
const (
	Logged   Durability = iota // like any table; the default
	Unlogged                   // faster to write, empty after a crash, not on replicas
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
	// Durability is the durability of the table that Migrate creates. It does not change an existing table: use ALTER
	// TABLE.
	Durability Durability
	// SynchronousCommit is "on", "off", or empty for the setting of the server or the role. If it is off, a decision
	// does not wait for the disk, and a crash of the server loses what was charged in the last half second or so.
	SynchronousCommit string
	// Now replaces the server's clock, to decide and to expire, for tests and replays.
	Now func() rule.Micros
}

// Store keeps state in PostgreSQL. It is safe for concurrent use. The zero value is not usable; call New.
type Store struct {
	store.Registry // the limits of the limiters over this store

	conn     Conn
	opts     Options
	take     string // statements
	takeMany string
	takeAny  string
	takesAny string
	single   string
	decide   string
	expire   string
	position string

	loadDocument string
	swapDocument string

	prefixes sync.Map // by the limit's ID
	known    atomic.Int64
}

const (
	maxCharges = 64  // per request
	maxCall    = 512 // charges per call: other callers of the same keys wait for it
	maxTries   = 4   // of a call that the server has rolled back

	maxPrefixes = 1 << 14 // limits whose part of an address is remembered
)

// New returns a store over a pool, which the caller has to close. It does no I/O: a missing schema shows at the first
// request.
func New(pool *pgxpool.Pool, opts Options) (*Store, error) {
	if pool == nil {
		return nil, errors.New("pgstore: pool: must not be nil; use pgxpool.New")
	}
	return NewWithConn(poolConn{pool}, opts)
}

// NewSQL is New over a database/sql pool, with the driver of pgx or any other driver for PostgreSQL.
func NewSQL(db *sql.DB, opts Options) (*Store, error) {
	if db == nil {
		return nil, errors.New("pgstore: db: must not be nil; use sql.Open")
	}
	return NewWithConn(sqlConn{db}, opts)
}

// NewWithConn returns a store over any Conn.
func NewWithConn(conn Conn, opts Options) (*Store, error) {
	if conn == nil {
		return nil, errors.New("pgstore: conn: must not be nil")
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	name := quote(opts.Schema) + "." + opts.Prefix
	load, swap := documentStatements(name + "documents")
	return &Store{
		conn: conn, opts: opts, loadDocument: load, swapDocument: swap,
		// With types, because not every protocol sends the types of parameters to the server.
		take: "SELECT " + name + `take($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint,
			$9::bigint, $10::bigint, $11::bigint)`,
		takeMany: "SELECT " + name + `take_many($1::text[], $2::bigint, $3::bigint, $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
			$8::bigint[])`,
		takeAny: "SELECT " + name + `take_any($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint,
			$9::bigint, $10::bigint, $11::bigint)`,
		takesAny: "SELECT " + name + "takes_any($1::text[], $2::bigint[])",
		single:   "SELECT " + name + "single($1::text, $2::bigint[])",
		decide:   "SELECT " + name + "decide($1::text[], $2::bigint[])",
		expire:   "SELECT deleted, seen, last FROM " + name + "expire($1::text, $2::bigint, $3::bigint, $4::bigint)",
		position: "SELECT " + name + "place()",
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
	case o.Durability > Unlogged:
		return o, fmt.Errorf("pgstore: durability: unknown value %d; use Logged or Unlogged", o.Durability)
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

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// Traits returns the traits of the store.
func (s *Store) Traits() store.Traits {
	return store.Traits{Name: "postgres", ServerClock: true, MaxCharges: maxCharges, RoundTrips: 1}
}

// Check accepts every limit: the functions are exact over the whole range of limits.
func (s *Store) Check(*store.Limit) error { return nil }

// Apply decides a batch of requests in one call of a function, or in several consecutive calls if it is very large.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	if err := ctx.Err(); err != nil {
		for i := range batch {
			batch[i].Err = err
		}
		return err
	}
	for rest := batch; len(rest) > 0; {
		n := callSize(rest)
		s.applySome(ctx, rest[:n])
		rest = rest[n:]
	}
	for i := range batch {
		if batch[i].Err != nil {
			return batch[i].Err
		}
	}
	return nil
}

// callSize returns how many requests, from the first on, go into one call.
func callSize(batch []store.Request) int {
	charges := 0
	for i := range batch {
		if charges += len(batch[i].Charges); charges > maxCall && i > 0 {
			return i
		}
	}
	return len(batch)
}

// prefix returns the part of an address that belongs to a limit.
func (s *Store) prefix(limit *store.Limit) string {
	if known, ok := s.prefixes.Load(limit.ID()); ok {
		return known.(string)
	}
	made := limitPrefix(limit)
	if s.known.Add(1) <= maxPrefixes { // beyond that, limits are probably created per request, and would fill the memory
		s.prefixes.Store(limit.ID(), made)
	}
	return made
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
