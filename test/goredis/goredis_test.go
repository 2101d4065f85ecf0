package goredis_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// The store behaves the same over go-redis as over rueidis.
func TestStore(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Server(t).Addr()})
	t.Cleanup(func() { client.Close() })
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		store, err := goredis.New(client, redisstore.Options{Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		return store
	})
}

// Clients that distribute keys over servers in another way than a cluster does are errors that say what to use instead: a
// limit would hold once per server.
func TestRefusesOtherClients(t *testing.T) {
	one, two := redistest.Server(t, "appendonly no"), redistest.Server(t, "appendonly no")
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": one.Addr(), "two": two.Addr()}})
	t.Cleanup(func() { ring.Close() })
	if err := ring.ForEachShard(t.Context(), func(ctx context.Context, shard *redis.Client) error { return shard.Ping(ctx).Err() }); err != nil {
		t.Fatal(err)
	}
	single := redis.NewClient(&redis.Options{Addr: one.Addr()})
	t.Cleanup(func() { single.Close() })
	type wrapper struct{ redis.UniversalClient }
	for name, c := range map[string]struct {
		client redis.UniversalClient
		want   string // in the error
	}{
		"ring":         {ring, "use redis.NewClient"},
		"wrapped ring": {wrapper{ring}, "pass the *redis.Client or *redis.ClusterClient"},
		"wrapper":      {wrapper{single}, "pass the *redis.Client or *redis.ClusterClient"},
	} {
		if _, err := goredis.New(c.client, redisstore.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one that contains %q", name, err, c.want)
		}
	}
	if _, err := goredis.New(single, redisstore.Options{}); err != nil {
		t.Errorf("a redis.Client: got error %v", err)
	}
	for _, addrs := range [][]string{{one.Addr()}, {one.Addr(), two.Addr()}} { // a redis.Client and a redis.ClusterClient
		client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs})
		t.Cleanup(func() { client.Close() })
		if _, err := goredis.New(client, redisstore.Options{}); err != nil {
			t.Errorf("redis.NewUniversalClient of %d addresses: got error %v", len(addrs), err)
		}
	}
}

// A client that finds the master through sentinels continues with the replica's counts after a failover.
func TestFailover(t *testing.T) {
	watched := redistest.Sentinel(t)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterSet, SentinelAddrs: watched.Options().InitAddress})
	t.Cleanup(func() { client.Close() })
	store, err := goredis.New(client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.PerHour(5))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := limiter.AllowN(t.Context(), "key", 3); err != nil || !d.Allowed {
		t.Fatalf("got %+v, %v, want it allowed", d, err)
	}
	replica := watched.Replica.Client(t)
	kit.Eventually(t, "the replica to have it", func() bool {
		n, err := replica.Do(t.Context(), replica.B().Arbitrary("DBSIZE").Build()).AsInt64()
		return err == nil && n == 1
	})
	watched.Master.Kill()
	watched.AwaitFailover()
	var d slidegate.Decision
	kit.Eventually(t, "the store to work again", func() bool {
		d, err = limiter.Peek(t.Context(), "key", 3)
		return err == nil
	})
	if d.Allowed || d.Remaining != 2 {
		t.Errorf("got %+v, want 3 refused with 2 remaining", d)
	}
}

// A server that does not know the script receives it, for all calls of a batch that need it.
func TestScriptIsSent(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Server(t).Addr()})
	t.Cleanup(func() { client.Close() })
	store, err := goredis.New(client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.PerHour(5))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if d, err := limiter.Allow(t.Context(), "key"); err != nil || !d.Allowed {
				t.Fatalf("got %+v, %v, want it allowed", d, err)
			}
		}
	}
	if d, err := limiter.Peek(t.Context(), "key", 1); err != nil || d.Remaining != 1 {
		t.Errorf("got %d remaining, want 1; %v", d.Remaining, err)
	}
}

func TestDocuments(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Server(t).Addr()})
	t.Cleanup(func() { client.Close() })
	store := kit.Must(goredis.New(client, redisstore.Options{}))(t)
	storetest.RunDocuments(t, store, store)
}
