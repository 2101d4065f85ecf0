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

// The durabilities.
const (
	Logged   Durability = iota // as every table; the default
	Unlogged                   // faster to write, empty after a crash, not on replicas
)

// Options are what a Store and its schema have besides a pool. The zero value is useful. Migrate and New want the same Schema
// and Prefix.
type Options struct {
	// Schema is where the table and the functions are; "public" if it is empty. Migrate creates it if it is not there.
	Schema string
	// Prefix is what their names begin with, in small letters, digits and underscores; "slidegate_" if it is empty.
	Prefix string
	// Grace is how long a state outlives the moment from which it does not matter any more, before Expire deletes it; one
	// minute if it is 0. It has to cover what the clocks of a server and of a replica that takes over may differ by.
	Grace time.Duration
	// Durability is that of the table which Migrate creates. It does not change a table that is there: ALTER TABLE does.
	Durability Durability
	// SynchronousCommit is "on", "off", or empty for what the server or the role has. When it is off, a decision does not wait
	// for the disk, and a crash of the server forgets what was charged in the last half second or so.
	SynchronousCommit string
	// Now replaces the server's clock, to decide and to expire, for tests and replays.
	Now func() rule.Micros
}

// Store keeps state in PostgreSQL. It is safe for concurrent use. The zero value is not usable; New makes it.
type Store struct {
	store.Registry // of the limits that limiters have over this store

	conn     Conn
	opts     Options
	take     string // statements
	takeMany string
	takeAny  string
	takesAny string
	single   string
	decide   string
	expire   string
	place    string
	prefixes sync.Map // by the IDs of limits
	known    atomic.Int64
}

const (
	maxCharges = 64  // of one request
	maxCall    = 512 // charges of one call: others who want the same keys wait meanwhile
	maxTries   = 4   // of a call that the server has undone

	maxPrefixes = 1 << 14 // limits whose part of an address is remembered
)

// New returns a store over a pool, which stays the caller's to close. It does no I/O: whether the schema is there shows at the
// first request.
func New(pool *pgxpool.Pool, opts Options) (*Store, error) {
	if pool == nil {
		return nil, errors.New("pgstore: pool: must not be nil; pgxpool.New makes one")
	}
	return NewWithConn(poolConn{pool}, opts)
}

// NewSQL is New over a pool of the package database/sql, with the driver of pgx or any other for PostgreSQL.
func NewSQL(db *sql.DB, opts Options) (*Store, error) {
	if db == nil {
		return nil, errors.New("pgstore: db: must not be nil; sql.Open makes one")
	}
	return NewWithConn(sqlConn{db}, opts)
}

// NewWithConn is New over anything that there is a Conn for.
func NewWithConn(conn Conn, opts Options) (*Store, error) {
	if conn == nil {
		return nil, errors.New("pgstore: conn: must not be nil")
	}
	opts, err := opts.normal()
	if err != nil {
		return nil, err
	}
	name := quote(opts.Schema) + "." + opts.Prefix
	return &Store{
		conn: conn, opts: opts,
		// With types, because not every way of sending parameters tells the server which they have.
		take: "SELECT " + name + `take2($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint,
			$9::bigint, $10::bigint, $11::bigint)`,
		takeMany: "SELECT " + name + `take_many2($1::text[], $2::bigint, $3::bigint, $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
			$8::bigint[])`,
		takeAny: "SELECT " + name + `take3($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint,
			$9::bigint, $10::bigint, $11::bigint)`,
		takesAny: "SELECT " + name + "takes3($1::text[], $2::bigint[])",
		single:   "SELECT " + name + "single2($1::text, $2::bigint[])",
		decide:   "SELECT " + name + "decide2($1::text[], $2::bigint[])",
		expire:   "SELECT deleted, seen, last FROM " + name + "expire($1::text, $2::bigint, $3::bigint, $4::bigint)",
		place:    "SELECT " + name + "place()",
	}, nil
}

// normal returns the options with their defaults filled in, or an error that names the field.
func (o Options) normal() (Options, error) {
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
	case len(o.Schema) > 63 || !plain(o.Schema, true):
		return o, fmt.Errorf("pgstore: schema: %q: use at most 63 visible characters of ASCII, without quotes and braces", o.Schema)
	case len(o.Prefix) > 40 || !plain(o.Prefix, false) || o.Prefix[0] >= '0' && o.Prefix[0] <= '9':
		return o, fmt.Errorf("pgstore: prefix: %q: use at most 40 small letters, digits and underscores, and no digit first", o.Prefix)
	case o.Grace < 0:
		return o, fmt.Errorf("pgstore: grace: must not be negative, it is %v", o.Grace)
	case o.Durability > Unlogged:
		return o, fmt.Errorf("pgstore: durability: unknown value %d; use Logged or Unlogged", o.Durability)
	case o.SynchronousCommit != "" && o.SynchronousCommit != "on" && o.SynchronousCommit != "off":
		return o, fmt.Errorf("pgstore: synchronous commit: %q: use on or off, or leave it empty for what the server has", o.SynchronousCommit)
	}
	return o, nil
}

// plain tells whether a text can be put into the names of a statement: of small letters, digits and underscores, or of anything
// visible that can stand between quotes.
func plain(text string, quoted bool) bool {
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

// Traits tells what the store can do.
func (s *Store) Traits() store.Traits {
	return store.Traits{Name: "postgres", ServerClock: true, MaxCharges: maxCharges, RoundTrips: 1}
}

// Check refuses nothing: the functions are exact over the whole range of limits.
func (s *Store) Check(*store.Limit) error { return nil }

// Apply decides a batch of requests in one call of a function, or in several one after the other if it is very large.
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

// callSize returns how many requests from the first on go into one call.
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
	if s.known.Add(1) <= maxPrefixes { // beyond that, limits are made anew for every request, and would fill the memory
		s.prefixes.Store(limit.ID(), made)
	}
	return made
}

// now returns the time for the functions, -1 for the server's own.
func (s *Store) now() int64 {
	if s.opts.Now == nil {
		return -1
	}
	return int64(s.opts.Now())
}

// commit returns how a function is told what SynchronousCommit says.
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
