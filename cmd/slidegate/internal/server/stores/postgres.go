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

// postgresTarget is the parsed URL of a PostgreSQL server.
type postgresTarget struct {
	pool    *pgxpool.Config
	store   pgstore.Options
	migrate bool
	offline store.Store
	log     *slog.Logger
}

var postgresParameters = []string{
	"slidegate_schema", "slidegate_prefix", "slidegate_unlogged", "slidegate_synchronous_commit", "slidegate_migrate",
}

// sweepEvery is how often rows that are no longer needed are deleted.
const sweepEvery = time.Minute

// parsePostgres parses the URL of a PostgreSQL server. It removes our own parameters, and passes the rest to pgx.
func parsePostgres(text string, opts *Options) (*postgresTarget, error) {
	t := &postgresTarget{migrate: true, log: opts.Logger}
	before, query, _ := strings.Cut(text, "?")
	var others []string // verbatim: pgx parses them slightly differently than net/url encodes them
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "slidegate") {
			others = append(others, pair)
			continue
		}
		value, err := url.PathUnescape(value)
		if err != nil {
			return nil, invalid("URL", "invalid parameter in the URL; percent-encode special characters")
		}
		if err := t.readParameter(name, value); err != nil {
			return nil, err
		}
	}
	if rest := strings.Join(others, "&"); rest != "" {
		before += "?" + rest
	}
	var err error
	if t.pool, err = pgxpool.ParseConfig(before); err != nil { // the error may contain part of the password
		return nil, invalid("URL", "invalid postgres URL; write postgres://USER:PASSWORD@HOST:PORT/DATABASE?..., "+
			"percent-encode / ? # @ and %% in a user or password, and use only parameters of libpq or pgx's pool")
	}
	if t.pool.ConnConfig.ConnectTimeout == 0 {
		t.pool.ConnConfig.ConnectTimeout = dialTimeout
	}
	if t.pool.ConnConfig.RuntimeParams["application_name"] == "" {
		t.pool.ConnConfig.RuntimeParams["application_name"] = "slidegate"
	}
	t.offline, err = pgstore.NewWithConn(noPostgres{}, t.store)
	if err != nil {
		return nil, invalid("URL", "%w", err)
	}
	return t, nil
}

// mayBePlaintext reports whether passwords and keys may cross a network in plain text. They may if sslmode is disable, allow or
// prefer; prefer, which is pgx's default, accepts a server, or an attacker in between, that offers no TLS.
func (t *postgresTarget) mayBePlaintext() bool {
	c := t.pool.ConnConfig
	if c.TLSConfig == nil && !isLocalHost(c.Host) {
		return true
	}
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil && !isLocalHost(f.Host) })
}

// isLocalHost reports whether a host, in the form that pgx uses, is a socket in the file system or a loopback
// address.
func isLocalHost(host string) bool {
	if host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// readParameter parses one of our parameters.
func (t *postgresTarget) readParameter(name, value string) (err error) {
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
		return unknownParameter(shown(name, name), postgresParameters)
	}
	if err != nil {
		return invalid("URL", "%s: must be true or false, not %q", name, value)
	}
	return nil
}

// connect creates a pool and migrates the schema to this version. From then on, the pool reconnects automatically.
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
		_ = store.Sweep(sweeping, sweepEvery, func(err error) { // returns only when sweeping ends
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
	return &link{store: store, ping: ping, close: end}, nil
}

// migrateTimeout is how long a migration may take; other processes may be migrating too.
const migrateTimeout = 30 * time.Second

// prepare checks that the server answers, and creates or migrates the schema.
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

// noPostgres is the connection of an offline store, of which only methods without I/O are called.
type noPostgres struct{ pgstore.Conn }
