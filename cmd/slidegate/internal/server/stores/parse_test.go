package stores

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestParseRedis checks what is parsed from a URL: hosts, user, password, database, master, TLS.
func TestParseRedis(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h":                     "[h:6379] : 0 - -",
		"redis://":                      "[localhost:6379] : 0 - -",
		"REDIS://h:1/2":                 "[h:1] : 2 - -",
		"redis://u:p%40%2f@[::1]:7/":    "[[::1]:7] u:p@/ 0 - -",
		"redis://::1":                   "[[::1]:6379] : 0 - -",
		"redis://:p@w@h":                "[h:6379] :p@w 0 - -", // the last @ ends the password
		"rediss://h":                    "[h:6379] : 0 - h",
		"rediss://h?server_name=x":      "[h:6379] : 0 - x",
		"redis+cluster://u:p@a:1,b,c:3": "[a:1 b:6379 c:3] u:p 0 - -",
		"rediss+cluster://a,b":          "[a:6379 b:6379] : 0 - ",
		"redis+sentinel://a,b:5/mine":   "[a:26379 b:5] : 0 mine -",
		"redis+sentinel://a/mine/4?sentinel_password=s": "[a:26379] : 4 mine -",
	} {
		target, err := parseRedis(url)
		if err != nil {
			t.Errorf("%s: got error %v", url, err)
			continue
		}
		c := &target.client
		master, name := c.Sentinel.MasterSet, "-"
		if master == "" {
			master = "-"
		}
		if c.TLSConfig != nil {
			name = c.TLSConfig.ServerName
		}
		got := fmt.Sprintf("%v %s:%s %d %s %s", c.InitAddress, c.Username, c.Password, c.SelectDB, master, name)
		if got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
		if c.Dialer.Timeout != time.Second || !c.DisableRetry || !c.DisableCache || c.ClientName != "slidegate" {
			t.Errorf("%s: got the client's settings %+v, want a dial timeout of 1s, no retries, no cache, the name slidegate", url, c)
		}
	}
}

func TestParsePostgres(t *testing.T) {
	opts := &Options{Logger: slog.New(slog.DiscardHandler)}
	target, err := parsePostgres("postgres://u:p%3F@h:5/db?slidegate_schema=my%20own&pool_max_conns=7&slidegate_unlogged=1&slidegate_migrate=false&application_name=a%2Bb", opts)
	if err == nil {
		t.Fatalf("got %+v, want an error about the space in the schema", target)
	}
	target, err = parsePostgres("postgres://u:p%3F@h:5/db?slidegate_schema=own&pool_max_conns=7&slidegate_unlogged=1&slidegate_migrate=false&application_name=a%2Bb", opts)
	if err != nil {
		t.Fatal(err)
	}
	c := target.pool
	if c.MaxConns != 7 || c.ConnConfig.Password != "p?" || c.ConnConfig.Host != "h" || c.ConnConfig.Port != 5 {
		t.Errorf("for pgx: got %d connections, %+v; want 7, to h:5 with the password p?", c.MaxConns, c.ConnConfig)
	}
	if got, want := c.ConnConfig.RuntimeParams, map[string]string{"application_name": "a+b"}; !maps.Equal(got, want) {
		t.Errorf("for the server: got %v, want %v", got, want)
	}
	if target.store.Schema != "own" || target.store.Durability != 1 || target.migrate {
		t.Errorf("for the store: got %+v, migrate %v", target.store, target.migrate)
	}
}

// TestReplicas: by default, up to three processes of an embedded cluster keep the bucket.
func TestReplicas(t *testing.T) {
	for url, want := range map[string]int{
		"nats:embedded?dir=d": 1,
		"nats:embedded?dir=d&route=localhost:1&cluster=localhost:1,localhost:2":            2,
		"nats:embedded?dir=d&route=localhost:1&cluster=localhost:2,localhost:3":            3,
		"nats:embedded?dir=d&route=localhost:1&cluster=localhost:1,a:2,b:3,c:4,d:5":        3,
		"nats:embedded?dir=d&route=0.0.0.0:1&cluster=a:1,b:1,c:1&secret=x":                 3,
		"nats:embedded?dir=d&route=:1&cluster=a:1,b:1&secret=x":                            2,
		"nats:embedded?dir=d&route=localhost:1&cluster=localhost:1,a:2,b:3,c:4&replicas=1": 1,
		"nats://h":           0, // the default of natskv
		"tls://h?replicas=5": 5,
	} {
		target, err := parseNATSOrEmbedded(url, &Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil || target.bucket.Replicas != want {
			t.Errorf("%s: got %+v, %v, want %d replicas", url, target, err, want)
		}
	}
}

// TestPlainPostgresIsLogged: a connection that may be plain text is logged at the start, unless it stays on this machine.
func TestPlainPostgresIsLogged(t *testing.T) {
	for url, want := range map[string]bool{
		"postgres://db.example/limits": true, "postgresql://10.0.0.5:5432/limits?sslmode=prefer": true, "postgres://db/l?sslmode=allow": true,
		"postgres://db/l?sslmode=disable": true, "postgres://localhost,db.example/l": true, "postgres:///l?host=db.example": true,
		"postgres://db/l?sslmode=require": false, "postgres://db/l?sslmode=verify-ca": false, "postgres://db/l?sslmode=verify-full": false,
		"postgres://localhost/l": false, "postgres://127.0.0.1/l?sslmode=disable": false, "postgres://[::1]/l": false,
		"postgres:///l?host=/run/postgresql": false,
	} {
		target, err := parsePostgres(url, &Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Errorf("%s: got error %v", url, err)
		} else if got := target.mayBePlaintext(); got != want {
			t.Errorf("%s: got %v, want %v", url, got, want)
		}
	}
	var log strings.Builder
	o, err := Open(t.Context(), "postgres://user:correcthorse@192.0.2.1:1/l?connect_timeout=1&sslmode=prefer", Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, "sslmode=verify-full") != 1 || strings.Contains(got, "correcthorse") {
		t.Errorf("unexpected log:\n%s", got)
	}
}

// FuzzURL parses URLs that contain a password: whatever they look like, no error contains it.
func FuzzURL(f *testing.F) {
	for _, rest := range []string{"@h", "@h:1/2?prefix=x", "@a,b:5/mine", "/@h", "?@h", "#@h", ":1@h", "%zz@h", "@h?dial_timeout=", "@h/?slidegate_x", ""} {
		f.Add("redis://u:", rest)
		f.Add("rediss+sentinel://", rest)
		f.Add("postgres://u:", rest)
		f.Add("memory:", rest)
		f.Add("nats://", rest)
		f.Add("tls://u:", rest)
		f.Add("nats:embedded?dir=d&route=10.0.0.1:1&cluster=a:1&secret=", rest)
		f.Add("memcached://", rest)
	}
	const password = "correcthorse"
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + password + after
		_, redis := parseRedis(text)
		_, postgres := parsePostgres(text, &Options{})
		_, nats := parseNATSOrEmbedded(text, &Options{Logger: slog.New(slog.DiscardHandler)})
		_, memcached := parseMemcached(text, &Options{})
		scheme, _, _ := strings.Cut(text, ":")
		memory := (&Opened{}).openMemory(text, &Options{MaxBytes: 1 << 20})
		for _, err := range []error{redis, postgres, nats, memcached, memory, unknownScheme(scheme)} {
			if err != nil && (strings.Contains(err.Error(), password) || !strings.HasPrefix(err.Error(), "stores: ")) {
				if slices.ContainsFunc([]string{"dial_timeout", "write_timeout", "protocol", "skip_verify", "max_bytes", "prefix", "slidegate",
					"replicas", "storage", "sync", "timeout", "clock"}, func(name string) bool {
					return strings.Contains(before, name)
				}) {
					continue // errors may quote the value of a named parameter, which is not a password
				}
				t.Errorf("%q: got the error %v, want one of stores without the password", text, err)
			}
		}
	})
}
