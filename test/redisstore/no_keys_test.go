package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// marker is in every key of these tests, and in no error.
const marker = "marker-7f3a"

// keysWithMarker are keys of which a server could show a part.
var keysWithMarker = []string{
	marker, marker + "@example.com", "it's-" + marker + "', with args", strings.Repeat("long-", 100) + marker, marker + strings.Repeat("-long", 100),
	"with space and ä " + marker,
}

// brokenServer is a server that rejects decisions in some way.
type brokenServer struct {
	config  []string
	prepare func(t *testing.T, client rueidis.Client)
	user    string // the user, with the password "word"
	want    string // part of the error
}

func brokenServers() map[string]brokenServer {
	return map[string]brokenServer{
		"EVALSHA is renamed":    {config: []string{`rename-command EVALSHA ""`}, want: "unknown command"},
		"both are renamed":      {config: []string{`rename-command EVALSHA ""`, `rename-command EVAL ""`}, want: "unknown command"},
		"SCRIPT FLUSH, no EVAL": {config: []string{`rename-command EVAL ""`}, want: "unknown command"},
		"keys are not allowed": {
			config: []string{"user app on >word ~elsewhere:* +@all"}, user: "app", want: "NOPERM",
		},
		"commands are not allowed": {
			config: []string{"user app on >word ~* +@all -evalsha -eval"}, user: "app", want: "NOPERM",
		},
		"commands of the script are not allowed": {
			config: []string{"user app on >word ~* +@all -set -setrange -get -mget -getrange"}, user: "app", want: "",
		},
		"memory is full": {
			config: []string{"maxmemory 1kb", "maxmemory-policy noeviction"}, want: "OOM",
		},
		"a replica": {
			prepare: func(t *testing.T, client rueidis.Client) { do(t, client, "REPLICAOF", "127.0.0.1", deadPort(t)) }, want: "READONLY",
		},
		"stale replica": {
			config:  []string{"replica-serve-stale-data no"},
			prepare: func(t *testing.T, client rueidis.Client) { do(t, client, "REPLICAOF", "127.0.0.1", deadPort(t)) }, want: "MASTERDOWN",
		},
		"a node of a cluster without slots": {config: []string{"cluster-enabled yes"}, want: "CLUSTERDOWN"},
		"too few replicas":                  {config: []string{"min-replicas-to-write 1"}, want: "NOREPLICAS"},
	}
}

// clientsOf returns stores over both kinds of clients of a server.
func clientsOf(t *testing.T, server *redistest.Node, user string) map[string]*redisstore.Store {
	t.Helper()
	options := rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true}
	others := &redis.Options{Addr: server.Addr()}
	if user != "" {
		options.Username, options.Password = user, "word"
		others.Username, others.Password = user, "word"
	}
	client := redis.NewClient(others)
	t.Cleanup(func() { client.Close() })
	return map[string]*redisstore.Store{
		"rueidis":  newStore(t, redistest.Client(t, options), redisstore.Options{}),
		"go-redis": kit.Must(goredis.New(client, redisstore.Options{}))(t),
	}
}

// No error contains a key, whatever the server replies, nor does any error that it wraps.
func TestNoKeyInErrors(t *testing.T) {
	t.Parallel()
	for name, broken := range brokenServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t, append([]string{"appendonly no"}, broken.config...)...)
			if broken.prepare != nil {
				broken.prepare(t, server.Client(t))
			}
			for by, s := range clientsOf(t, server, broken.user) {
				for _, key := range keysWithMarker {
					checkNoKey(t, by, s, key, broken.want)
				}
			}
		})
	}
}

// checkNoKey requests a key alone, in a group, and in batches.
func checkNoKey(t *testing.T, by string, s *redisstore.Store, key, want string) {
	t.Helper()
	limit := bind(t, "no-keys", hourly)
	single := store.Request{Charges: []store.Charge{{Limit: limit, Key: key, Cost: 1}}, Answers: make([]rule.Answer, 1)}
	grouped := single
	grouped.Group, grouped.Answers = key, make([]rule.Answer, 1)
	for _, batch := range [][]store.Request{{single}, {grouped}, {single, grouped}} {
		err := s.Apply(context.Background(), batch)
		if err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %q: got %v, want an error of redisstore with %q", by, key, err, want)
		}
		for at := []error{err}; len(at) > 0; at = append(at[1:], wrappedBy(at[0])...) {
			if text := fmt.Sprintf("%v %+v", at[0], at[0]); strings.Contains(text, marker) || strings.Contains(text, "long-long") {
				t.Errorf("%s: the error %q contains a key", by, text)
			}
		}
	}
}

// wrappedBy returns the errors that an error wraps directly.
func wrappedBy(err error) []error {
	switch err := err.(type) {
	case interface{ Unwrap() []error }:
		return err.Unwrap()
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			return []error{inner}
		}
	}
	return nil
}

// The error of a node that redirects clients names the slot, not the key.
func TestNoKeyWhenMoved(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	for by, s := range clientsOf(t, nodes[0], "") {
		moved := 0
		for i := range 20 {
			key := fmt.Sprint(marker, i)
			_, err := tryApply(context.Background(), s, rule.Take, store.Charge{Limit: bind(t, "no-keys", hourly), Key: key, Cost: 1})
			if err == nil {
				continue
			}
			moved++
			if !strings.Contains(err.Error(), "MOVED") || strings.Contains(err.Error(), marker) {
				t.Errorf("%s: got %v, want MOVED without a key", by, err)
			}
		}
		if moved == 0 {
			t.Errorf("%s: no key is on another node: the test proves nothing", by)
		}
	}
}

// The error of a server that is busy with another script contains no key.
func TestNoKeyWhenBusy(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no", "busy-reply-threshold 1")
	stores, other, killer := clientsOf(t, server, ""), server.Client(t), server.Client(t)
	for _, s := range stores { // connect before the server stops answering
		if _, err := tryApply(context.Background(), s, rule.Peek, store.Charge{Limit: bind(t, "no-keys", hourly), Key: marker, Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	do(t, killer, "PING")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = other.Do(context.Background(), other.B().Arbitrary("EVAL", "while true do end", "0").Build()).Error() // it is killed
	}()
	for by, s := range stores {
		var err error
		kit.Eventually(t, "the server to be busy", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, err = tryApply(ctx, s, rule.Take, store.Charge{Limit: bind(t, "no-keys", hourly), Key: marker, Cost: 1})
			return err != nil && strings.Contains(err.Error(), "BUSY")
		})
		if strings.Contains(err.Error(), marker) {
			t.Errorf("%s: the error %v contains a key", by, err)
		}
	}
	do(t, killer, "SCRIPT", "KILL")
	<-ended
}
