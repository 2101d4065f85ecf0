package memcached_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/memcached"
)

// This example is not run, because it needs a server.
func Example() {
	ctx := context.Background()
	const server = "localhost:11211" // started with -M
	engine, err := memcached.New(ctx, memcache.New(server), memcached.Options{ClockServer: server})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	store, err := kvstore.New(engine, kvstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
	if err != nil {
		log.Fatal(err)
	}
	decision, err := limiter.Allow(ctx, "user-1")
	fmt.Println(decision.Allowed, err)
}
