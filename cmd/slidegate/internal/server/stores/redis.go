package stores

import (
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

// redisTarget is the parsed URL of a Redis server, cluster or set of sentinels.
type redisTarget struct {
	client  rueidis.ClientOption
	store   redisstore.Options
	offline store.Store
}

const (
	dialTimeout  = time.Second     // per attempt; a slower attempt is repeated, and decisions do not wait for it
	writeTimeout = 3 * time.Second // after which a silent connection is closed
)

// parseRedis parses the URL of a server, a cluster, or sentinels.
func parseRedis(text string) (*redisTarget, error) {
	defaultPort := "6379"
	if scheme, _, _ := strings.Cut(text, ":"); strings.HasSuffix(strings.ToLower(scheme), "+sentinel") {
		defaultPort = "26379"
	}
	a, err := parseAddress(text, defaultPort, "prefix", "dial_timeout", "write_timeout", "client_name", "protocol", "server_name",
		"skip_verify", "sentinel_user", "sentinel_password")
	if err != nil {
		return nil, err
	}
	base, kind, _ := strings.Cut(a.scheme, "+")
	t := &redisTarget{store: redisstore.Options{Prefix: a.query.Get("prefix")}}
	t.client = rueidis.ClientOption{
		InitAddress: a.hosts, Username: a.user, Password: a.password, ClientName: a.query.Get("client_name"),
		DisableCache: true, // nothing could be cached, and the cache takes memory per connection
		DisableRetry: true, // a decision is never sent twice
	}
	if t.client.ClientName == "" {
		t.client.ClientName = "slidegate"
	}
	if err := t.readPath(kind, a.path); err != nil {
		return nil, err
	}
	if kind == "" && len(a.hosts) > 1 {
		return nil, invalid("URL", "redis:// takes one host; for several, write redis+cluster:// or redis+sentinel://")
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
		s.TopologyRefreshInterval = 5 * time.Second // notices a failover even if its announcement was missed
	} else if a.query.Has("sentinel_user") || a.query.Has("sentinel_password") {
		return nil, invalid("URL", "sentinel_user and sentinel_password are only valid with redis+sentinel://")
	}
	t.offline, err = redisstore.NewWithConn(noConn{}, t.store)
	if err != nil {
		return nil, invalid("URL", "prefix: %w", err)
	}
	return t, nil
}

// readPath parses the path: the name of the master for sentinels, then the number of the database.
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
		return invalid("URL", "the path of a redis URL must be a database number, or empty; "+
			"if it is part of a password, percent-encode the /")
	case kind == "cluster" && db != 0:
		return invalid("URL", "a cluster has only database 0; remove the number from redis+cluster://")
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
				return invalid("URL", "%s: must be a duration such as 500ms, not %q", name, text)
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

func (t *redisTarget) readTLS(enabled bool, a *address) error {
	skip := a.query.Get("skip_verify")
	if !enabled {
		if skip != "" || a.query.Has("server_name") {
			return invalid("URL", "skip_verify and server_name require TLS; write rediss://")
		}
		return nil
	}
	t.client.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.query.Get("server_name")}
	if len(a.hosts) == 1 && t.client.TLSConfig.ServerName == "" {
		t.client.TLSConfig.ServerName, _, _ = net.SplitHostPort(a.hosts[0]) // a cluster may announce its other nodes by IP address only
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

// connect creates a client. From then on, the client reconnects automatically.
func (t *redisTarget) connect(ctx context.Context) (*link, error) {
	opts := t.client
	opts.DialCtxFn = func(dialing context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		dialing, cancel := context.WithCancel(dialing)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)() // closing the store does not wait for an attempt
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
	return &link{store: store, ping: ping, close: client.Close, warnings: store.Warnings}, nil
}

func dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	secure := tls.Dialer{NetDialer: dialer, Config: config}
	return secure.DialContext(ctx, "tcp", addr)
}

// withoutArguments removes the arguments that a server repeats in its error about an unknown command: those of AUTH and HELLO
// contain the password.
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

// noConn is the connection of an offline store. It is never called.
type noConn struct{}

func (noConn) Run(_ context.Context, _ *redisstore.Script, calls []redisstore.Call) {
	for i := range calls {
		calls[i].Err = ErrDown
	}
}

func (noConn) Cluster() bool { return false }
