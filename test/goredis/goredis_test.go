package goredis_test

import (
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
		d, err = limiter.PeekN(t.Context(), "key", 3)
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
	if d, err := limiter.Peek(t.Context(), "key"); err != nil || d.Remaining != 1 {
		t.Errorf("got %d remaining, want 1; %v", d.Remaining, err)
	}
}
