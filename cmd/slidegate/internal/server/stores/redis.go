package stores

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
)

// redisTarget is where a Redis is, and how to talk to it.
type redisTarget struct {
	client rueidis.ClientOption
	store  redisstore.Options
	sketch store.Store
}

const (
	dialTimeout  = time.Second     // an attempt that takes longer is made again; decisions do not wait for it
	writeTimeout = 3 * time.Second // after which a connection that is silent is given up
)

// parseRedis reads the URL of a server, a cluster, or sentinels.
func parseRedis(text string) (*redisTarget, error) {
	usual := "6379"
	if scheme, _, _ := strings.Cut(text, ":"); strings.HasSuffix(strings.ToLower(scheme), "+sentinel") {
		usual = "26379"
	}
	a, err := parseAddress(text, usual, "prefix", "dial_timeout", "write_timeout", "client_name", "protocol", "server_name",
		"skip_verify", "sentinel_user", "sentinel_password")
	if err != nil {
		return nil, err
	}
	base, kind, _ := strings.Cut(a.scheme, "+")
	t := &redisTarget{store: redisstore.Options{Prefix: a.query.Get("prefix")}}
	t.client = rueidis.ClientOption{
		InitAddress: a.hosts, Username: a.user, Password: a.password, ClientName: a.query.Get("client_name"),
		DisableCache: true, // nothing is read that could be cached, and it takes a connection's memory
		DisableRetry: true, // a decision is never sent twice
	}
	if t.client.ClientName == "" {
		t.client.ClientName = "slidegate"
	}
	if err := t.readPath(kind, a.path); err != nil {
		return nil, err
	}
	if kind == "" && len(a.hosts) > 1 {
		return nil, invalid("URL", "redis:// has one host; for several write redis+cluster:// or redis+sentinel://")
	}
	if err := t.readParameters(&a); err != nil {
		return nil, err
	}
	if err := t.readTLS(base == "rediss", &a); err != nil {
		return nil, err
	}
	if kind == "sentinel" {
		s := &t.client.Sentinel
		s.Username, s.Password = a.query.Get("sentinel_user"), a.query.Get("sentinel_password")
		s.Dialer, s.TLSConfig, s.ClientName = t.client.Dialer, t.client.TLSConfig, t.client.ClientName
		s.TopologyRefreshInterval = 5 * time.Second // a failover whose announcement was missed is still seen
	} else if a.query.Has("sentinel_user") || a.query.Has("sentinel_password") {
		return nil, invalid("URL", "sentinel_user and sentinel_password are for redis+sentinel:// alone")
	}
	t.sketch, err = redisstore.NewWithConn(noConn{}, t.store)
	if err != nil {
		return nil, invalid("URL", "prefix: %w", err)
	}
	return t, nil
}

// readPath reads what follows the host: for sentinels the name of the master, then the number of the database.
func (t *redisTarget) readPath(kind string, path []string) error {
	if kind == "sentinel" {
		if len(path) == 0 || path[0] == "" {
			return invalid("URL", "redis+sentinel:// needs the name of the master after the hosts, such as .../mymaster")
		}
		t.client.Sentinel.MasterSet, path = path[0], path[1:]
	}
	if len(path) == 0 || len(path) == 1 && path[0] == "" {
		return nil
	}
	db, err := strconv.Atoi(path[0])
	switch {
	case err != nil || db < 0 || len(path) > 1:
		return invalid("URL", "what follows the host in a redis URL must be the number of a database, or nothing; "+
			"if it is part of a password, percent-encode the / in that")
	case kind == "cluster" && db != 0:
		return invalid("URL", "a cluster has no database but 0; leave the number out of redis+cluster://")
	}
	t.client.SelectDB = db
	return nil
}

func (t *redisTarget) readParameters(a *address) error {
	t.client.Dialer.Timeout, t.client.ConnWriteTimeout = dialTimeout, writeTimeout
	for name, to := range map[string]*time.Duration{
		"dial_timeout": &t.client.Dialer.Timeout, "write_timeout": &t.client.ConnWriteTimeout,
	} {
		if text := a.query.Get(name); text != "" {
			d, err := time.ParseDuration(text)
			if err != nil || d <= 0 {
				return invalid("URL", "%s: must be a time such as 500ms, not %q", name, text)
			}
			*to = d
		}
	}
	switch protocol := a.query.Get("protocol"); protocol {
	case "", "3":
	case "2":
		t.client.AlwaysRESP2 = true
	default:
		return invalid("URL", "protocol: must be 2 or 3, not %q", protocol)
	}
	return nil
}

func (t *redisTarget) readTLS(wanted bool, a *address) error {
	skip := a.query.Get("skip_verify")
	if !wanted {
		if skip != "" || a.query.Has("server_name") {
			return invalid("URL", "skip_verify and server_name are for TLS; write rediss:// to have it")
		}
		return nil
	}
	t.client.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.query.Get("server_name")}
	if len(a.hosts) == 1 && t.client.TLSConfig.ServerName == "" {
		t.client.TLSConfig.ServerName, _, _ = net.SplitHostPort(a.hosts[0]) // a cluster's other nodes may be known by number only
	}
	if skip != "" {
		yes, err := strconv.ParseBool(skip)
		if err != nil {
			return invalid("URL", "skip_verify: must be true or false, not %q", skip)
		}
		t.client.TLSConfig.InsecureSkipVerify = yes
	}
	return nil
}

// connect makes a client, which keeps itself connected from then on.
func (t *redisTarget) connect(ctx context.Context) (*link, error) {
	opts := t.client
	opts.DialCtxFn = func(dialing context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		dialing, cancel := context.WithCancel(dialing)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)() // whoever closes the store does not wait for an attempt
		conn, err := dial(dialing, addr, dialer, config)
		if err != nil {
			return nil, err
		}
		return newBoundedConn(conn, t.client.Sentinel.MasterSet != ""), nil
	}
	client, err := rueidis.NewClient(opts)
	if err != nil {
		return nil, withoutArguments(err)
	}
	store, err := redisstore.New(client, t.store)
	if err != nil {
		client.Close()
		return nil, err
	}
	ping := func(ctx context.Context) error {
		if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
			return failed("redis", withoutArguments(err))
		}
		return nil
	}
	prefix := cmp.Or(t.store.Prefix, "slidegate")
	return &link{
		store: store, ping: ping, keepKey: keepKeyInRedis(client, prefix), rulings: newRedisRulings(client, prefix),
		close: client.Close, warnings: store.Warnings,
	}, nil
}

func dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	secure := tls.Dialer{NetDialer: dialer, Config: config}
	return secure.DialContext(ctx, "tcp", addr)
}

// withoutArguments cuts what a server repeats of a command that it does not know: one that connects has the password in it.
func withoutArguments(err error) error {
	if _, answered := rueidis.IsRedisErr(err); !answered {
		return err
	}
	text, _, cut := strings.Cut(err.Error(), ", with args")
	if !cut {
		return err
	}
	return errors.New(text)
}

// noConn is a connection to nothing, of a sketch that is never asked.
type noConn struct{}

func (noConn) Run(_ context.Context, _ *redisstore.Script, calls []redisstore.Call) {
	for i := range calls {
		calls[i].Err = ErrDown
	}
}

func (noConn) Cluster() bool { return false }
