package pgstore

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slidegate/slidegate/internal/storeurl"
)

// target is the parsed URL of a PostgreSQL server.
type target struct {
	pool    *pgxpool.Config
	store   Options
	migrate bool
}

var ownParameters = []string{
	"slidegate_schema", "slidegate_prefix", "slidegate_unlogged", "slidegate_synchronous_commit", "slidegate_migrate",
}

// dialTimeout is how long connecting to a server may take unless the URL has a connect_timeout.
const dialTimeout = time.Second

const (
	// maxConns is the size of the pool unless the URL has a pool_max_conns: enough for round trips of 80 milliseconds, for which
	// the layer that combines requests has about ten calls under way. Where they are short it has two.
	maxConns = 16
	// idleConns is how many connections are kept ready unless the URL has a pool_min_idle_conns, so that requests rarely wait
	// until one is made.
	idleConns = 2
)

// parseURL parses the URL of a PostgreSQL server. It removes our own parameters, and passes the rest to pgx.
func parseURL(text string) (*target, error) {
	t := &target{migrate: true}
	if scheme, _, _ := strings.Cut(text, "://"); !strings.EqualFold(scheme, "postgres") && !strings.EqualFold(scheme, "postgresql") {
		return nil, storeurl.Errorf("the URL must begin with postgres://")
	}
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
			return nil, storeurl.Errorf("invalid parameter in the URL; percent-encode special characters")
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
		return nil, storeurl.Errorf("invalid postgres URL; write postgres://USER:PASSWORD@HOST:PORT/DATABASE?..., " +
			"percent-encode / ? # @ and %% in a user or password, and use only parameters of libpq or pgx's pool")
	}
	if !hasParameter(others, "pool_max_conns") {
		t.pool.MaxConns = maxConns
	}
	if !hasParameter(others, "pool_min_idle_conns") {
		t.pool.MinIdleConns = idleConns
	}
	if t.pool.ConnConfig.ConnectTimeout == 0 {
		t.pool.ConnConfig.ConnectTimeout = dialTimeout
	}
	if t.pool.ConnConfig.RuntimeParams["application_name"] == "" {
		t.pool.ConnConfig.RuntimeParams["application_name"] = "slidegate"
	}
	return t, nil
}

// hasParameter reports whether one of the parameters of a URL has the name.
func hasParameter(pairs []string, name string) bool {
	return slices.ContainsFunc(pairs, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
}

// mayBePlaintext reports whether passwords and keys may cross a network in plain text. They may if sslmode is disable, allow or
// prefer; prefer, which is pgx's default, accepts a server, or an attacker in between, that offers no TLS.
func (t *target) mayBePlaintext() bool {
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
func (t *target) readParameter(name, value string) (err error) {
	switch name {
	case "slidegate_schema":
		t.store.Schema = value
	case "slidegate_prefix":
		t.store.Prefix = value
	case "slidegate_synchronous_commit":
		t.store.SynchronousCommit = value
	case "slidegate_unlogged":
		t.store.Unlogged, err = strconv.ParseBool(value)
	case "slidegate_migrate":
		t.migrate, err = strconv.ParseBool(value)
	default:
		return storeurl.UnknownParameter(name, name, ownParameters)
	}
	if err != nil {
		return storeurl.Errorf("%s: must be true or false, not %q", name, value)
	}
	return nil
}
