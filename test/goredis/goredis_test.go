package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/redistest"
)

// The store is the same over go-redis as over rueidis.
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

// A server that does not know the script is sent it, for all calls of a batch that need it.
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
		t.Errorf("%d remain, not 1; %v", d.Remaining, err)
	}
}
