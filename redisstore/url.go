package redisstore

import (
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate/internal/storeurl"
)

// target is the parsed URL of a Redis server, cluster or set of sentinels.
type target struct {
	client  rueidis.ClientOption
	store   Options
	cluster bool
}

const (
	dialTimeout  = time.Second     // per attempt; a slower attempt is repeated, and decisions do not wait for it
	writeTimeout = 3 * time.Second // after which a silent connection is closed
)

// parseURL parses the URL of a server, a cluster, or sentinels.
func parseURL(text string) (*target, error) {
	defaultPort := "6379"
	if scheme, _, _ := strings.Cut(text, ":"); strings.HasSuffix(strings.ToLower(scheme), "+sentinel") {
		defaultPort = "26379"
	}
	a, err := storeurl.Parse(text, defaultPort, "prefix", "dial_timeout", "write_timeout", "client_name", "protocol", "server_name",
		"skip_verify", "sentinel_user", "sentinel_password")
	if err != nil {
		return nil, err
	}
	base, kind, _ := strings.Cut(a.Scheme, "+")
	if base != "redis" && base != "rediss" || kind != "" && kind != "cluster" && kind != "sentinel" {
		return nil, storeurl.Errorf("the URL must begin with redis://, redis+cluster:// or redis+sentinel://, or with rediss for TLS")
	}
	t := &target{store: Options{Prefix: a.Query.Get("prefix")}, cluster: kind == "cluster"}
	t.client = rueidis.ClientOption{
		InitAddress: a.Hosts, Username: a.User, Password: a.Password, ClientName: a.Query.Get("client_name"),
		DisableCache: true, // nothing could be cached, and the cache takes memory per connection
		DisableRetry: true, // a decision is never sent twice
	}
	if t.client.ClientName == "" {
		t.client.ClientName = "slidegate"
	}
	if err := t.readPath(kind, a.Path); err != nil {
		return nil, err
	}
	if kind == "" && len(a.Hosts) > 1 {
		return nil, storeurl.Errorf("redis:// takes one host; for several, write redis+cluster:// or redis+sentinel://")
	}
	if err := t.readParameters(&a); err != nil {
		return nil, err
	}
	if err := t.readTLS(base == "rediss", &a); err != nil {
		return nil, err
	}
	if kind == "sentinel" {
		s := &t.client.Sentinel
		s.Username, s.Password = a.Query.Get("sentinel_user"), a.Query.Get("sentinel_password")
		s.Dialer, s.TLSConfig, s.ClientName = t.client.Dialer, t.client.TLSConfig, t.client.ClientName
		s.TopologyRefreshInterval = 5 * time.Second // notices a failover even if its announcement was missed
	} else if a.Query.Has("sentinel_user") || a.Query.Has("sentinel_password") {
		return nil, storeurl.Errorf("sentinel_user and sentinel_password are only valid with redis+sentinel://")
	}
	return t, nil
}

// readPath parses the path: the name of the master for sentinels, then the number of the database.
func (t *target) readPath(kind string, path []string) error {
	if kind == "sentinel" {
		if len(path) == 0 || path[0] == "" {
			return storeurl.Errorf("redis+sentinel:// needs the name of the master after the hosts, such as .../mymaster")
		}
		t.client.Sentinel.MasterSet, path = path[0], path[1:]
	}
	if len(path) == 0 || len(path) == 1 && path[0] == "" {
		return nil
	}
	db, err := strconv.Atoi(path[0])
	switch {
	case err != nil || db < 0 || len(path) > 1:
		return storeurl.Errorf("the path of a redis URL must be a database number, or empty; " +
			"if it is part of a password, percent-encode the /")
	case kind == "cluster" && db != 0:
		return storeurl.Errorf("a cluster has only database 0; remove the number from redis+cluster://")
	}
	t.client.SelectDB = db
	return nil
}

func (t *target) readParameters(a *storeurl.Address) error {
	t.client.Dialer.Timeout, t.client.ConnWriteTimeout = dialTimeout, writeTimeout
	for name, to := range map[string]*time.Duration{
		"dial_timeout": &t.client.Dialer.Timeout, "write_timeout": &t.client.ConnWriteTimeout,
	} {
		if text := a.Query.Get(name); text != "" {
			d, err := time.ParseDuration(text)
			if err != nil || d <= 0 {
				return storeurl.Errorf("%s: must be a duration such as 500ms, not %q", name, text)
			}
			*to = d
		}
	}
	switch protocol := a.Query.Get("protocol"); protocol {
	case "", "3":
	case "2":
		t.client.AlwaysRESP2 = true
	default:
		return storeurl.Errorf("protocol: must be 2 or 3, not %q", protocol)
	}
	return nil
}

func (t *target) readTLS(enabled bool, a *storeurl.Address) error {
	skip := a.Query.Get("skip_verify")
	if !enabled {
		if skip != "" || a.Query.Has("server_name") {
			return storeurl.Errorf("skip_verify and server_name require TLS; write rediss://")
		}
		return nil
	}
	t.client.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.Query.Get("server_name")}
	if len(a.Hosts) == 1 && t.client.TLSConfig.ServerName == "" {
		t.client.TLSConfig.ServerName, _, _ = net.SplitHostPort(a.Hosts[0]) // a cluster may announce its other nodes by IP address only
	}
	if skip != "" {
		yes, err := strconv.ParseBool(skip)
		if err != nil {
			return storeurl.Errorf("skip_verify: must be true or false, not %q", skip)
		}
		t.client.TLSConfig.InsecureSkipVerify = yes
	}
	return nil
}
