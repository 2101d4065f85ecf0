package stores

import (
	"context"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/store"
)

// postgresTarget is where a PostgreSQL is, and how to use it.
type postgresTarget struct {
	pool    *pgxpool.Config
	store   pgstore.Options
	migrate bool
	sketch  store.Store
	log     *slog.Logger
}

var postgresParameters = []string{
	"slidegate_schema", "slidegate_prefix", "slidegate_unlogged", "slidegate_synchronous_commit", "slidegate_migrate",
}

// sweepEvery is how often rows that do not matter any more are deleted.
const sweepEvery = time.Minute

// parsePostgres reads the URL of a PostgreSQL. What is ours is taken out of it, the rest is for pgx.
func parsePostgres(text string, opts *Options) (*postgresTarget, error) {
	t := &postgresTarget{migrate: true, log: opts.Logger}
	before, query, _ := strings.Cut(text, "?")
	var theirs []string // as they were written: pgx reads them a little differently than net/url would write them
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "slidegate") {
			theirs = append(theirs, pair)
			continue
		}
		value, err := url.PathUnescape(value)
		if err != nil {
			return nil, invalid("URL", "a parameter of the URL cannot be read; percent-encode what is not plain in it")
		}
		if err := t.read(name, value); err != nil {
			return nil, err
		}
	}
	if rest := strings.Join(theirs, "&"); rest != "" {
		before += "?" + rest
	}
	var err error
	if t.pool, err = pgxpool.ParseConfig(before); err != nil { // the text of that error may hold a part of the password
		return nil, invalid("URL", "the postgres URL cannot be read; write postgres://USER:PASSWORD@HOST:PORT/DATABASE?..., "+
			"percent-encode / ? # @ and %% in a user or password, and give parameters that libpq or pgx's pool know")
	}
	if t.pool.ConnConfig.ConnectTimeout == 0 {
		t.pool.ConnConfig.ConnectTimeout = dialTimeout
	}
	if t.pool.ConnConfig.RuntimeParams["application_name"] == "" {
		t.pool.ConnConfig.RuntimeParams["application_name"] = "slidegate"
	}
	t.sketch, err = pgstore.NewWithConn(noPostgres{}, t.store)
	if err != nil {
		return nil, invalid("URL", "%w", err)
	}
	return t, nil
}

// mayBePlain reports whether passwords and keys may cross a network in plain text: sslmode is disable, allow, or prefer, which is
// pgx's default and gives in to a server, or to somebody in between, that offers no TLS.
func (t *postgresTarget) mayBePlain() bool {
	c := t.pool.ConnConfig
	if c.TLSConfig == nil && !onThisMachine(c.Host) {
		return true
	}
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil && !onThisMachine(f.Host) })
}

// onThisMachine reports whether a host of pgx's is a socket in the file system or a loopback address.
func onThisMachine(host string) bool {
	if host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// read reads a parameter of ours.
func (t *postgresTarget) read(name, value string) (err error) {
	switch name {
	case "slidegate_schema":
		t.store.Schema = value
	case "slidegate_prefix":
		t.store.Prefix = value
	case "slidegate_synchronous_commit":
		t.store.SynchronousCommit = value
	case "slidegate_unlogged":
		var yes bool
		if yes, err = strconv.ParseBool(value); yes {
			t.store.Durability = pgstore.Unlogged
		}
	case "slidegate_migrate":
		t.migrate, err = strconv.ParseBool(value)
	default:
		return unknownParameter(name, postgresParameters)
	}
	if err != nil {
		return invalid("URL", "%s: must be true or false, not %q", name, value)
	}
	return nil
}

// connect makes a pool and brings the schema to this version. The pool keeps itself connected from then on.
func (t *postgresTarget) connect(ctx context.Context) (*link, error) {
	pool, err := pgxpool.NewWithConfig(ctx, t.pool.Copy())
	if err != nil {
		return nil, err
	}
	if err := t.prepare(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	store, err := pgstore.New(pool, t.store)
	if err != nil {
		pool.Close()
		return nil, err
	}
	sweeping, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = store.Sweep(sweeping, sweepEvery, func(err error) { // ends with sweeping, for no other reason
			t.log.Warn("old rows were not deleted; trying again later", slog.String("store", "postgres"), slog.Any("error", err))
		})
	})
	ping := func(ctx context.Context) error {
		if err := pool.Ping(ctx); err != nil {
			return failed("postgres", err)
		}
		return nil
	}
	end := func() {
		stop()
		running.Wait()
		pool.Close()
	}
	return &link{store: store, ping: ping, keepKey: t.keepKeyIn(pool), rulings: t.newRulings(pool), close: end}, nil
}

// migrateTimeout is how long a migration may take, which other processes may be at too.
const migrateTimeout = 30 * time.Second

// prepare sees to it that the server answers and the schema is there.
func (t *postgresTarget) prepare(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		return err
	}
	if !t.migrate {
		return nil
	}
	return pgstore.Migrate(ctx, pool, t.store)
}

// noPostgres is a connection to nothing, of a sketch that is asked only what takes no I/O.
type noPostgres struct{ pgstore.Conn }
