package stack_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// The limit allows leases, and the key is busy, so nearly all requests are answered from leases. A store in memory stands in for
// one across a network.
func Example_leases() {
	shared := &remote{Store: memstore.NewDefault(), trips: 1}
	store, err := stack.New(shared, stack.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.Limit{
		Quota: 1_000_000, Window: time.Minute, Lease: true,
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	admitted, leased := 0, 0
	for range 20_000 {
		decision, err := limiter.Allow(ctx, "tenant:7")
		if err != nil {
			log.Fatal(err)
		}
		if decision.Allowed {
			admitted++
		}
		if decision.Flags&rule.Leased != 0 {
			leased++
		}
	}
	fmt.Println("admitted:", admitted)
	fmt.Println("without a call of their own, more than 19,000:", leased > 19_000)

	// Close gives back what was taken and not spent.
	if err := store.Close(ctx); err != nil {
		log.Fatal(err)
	}
	stats := store.Stats().Lease
	fmt.Println("calls to the store, fewer than 200:", stats.Calls < 200)
	fmt.Println("all units accounted for:", stats.Taken == stats.Spent+stats.Returned+stats.Wasted)
	// Output:
	// admitted: 20000
	// without a call of their own, more than 19,000: true
	// calls to the store, fewer than 200: true
	// all units accounted for: true
}

// Ten instances of a program share a quota of 10,000 per minute and request twice as much. Each has its own layers over the
// store that they share.
func Example_tenInstances() {
	shared := &remote{Store: memstore.NewDefault(), trips: 1}
	limit, err := slidegate.ParseLimit("10000/1m segments=60 overlap=whole lease")
	if err != nil {
		log.Fatal(err)
	}
	var admitted atomic.Int64
	var instances sync.WaitGroup
	for range 10 {
		instances.Go(func() {
			store, err := stack.New(shared, stack.Options{})
			if err != nil {
				log.Fatal(err)
			}
			limiter, err := slidegate.New(store, limit)
			if err != nil {
				log.Fatal(err)
			}
			for range 2_000 {
				decision, err := limiter.Allow(context.Background(), "tenant:7")
				if err != nil {
					log.Fatal(err)
				}
				if decision.Allowed {
					admitted.Add(1)
				}
			}
			if err := store.Close(context.Background()); err != nil {
				log.Fatal(err)
			}
		})
	}
	instances.Wait()
	fmt.Println("more than the quota:", admitted.Load() > 10_000)
	// Output:
	// more than the quota: false
}

// The error about a limit that cannot be leased suggests one that can.
func Example_notLeasable() {
	_, err := slidegate.ParseLimit("1000/10s lease") // its parts are too short
	fmt.Println("invalid:", errors.Is(err, slidegate.ErrLimit))
	fmt.Println("suggests a limit that can be leased:", strings.Contains(err.Error(), "segments=40 overlap=whole"))
	// Output:
	// invalid: true
	// suggests a limit that can be leased: true
}
