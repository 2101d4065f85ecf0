package coalesce_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/memstore"
)

// The layer goes between a limiter and a store across a network; here a store in memory stands in for it. Concurrent
// callers then share round trips, and the limit is as exact as before.
func Example() {
	remote := memstore.NewDefault()
	store := coalesce.New(remote, coalesce.Options{})
	limiter, err := slidegate.New(store, slidegate.PerHour(100))
	if err != nil {
		log.Fatal(err)
	}
	var callers sync.WaitGroup
	var admitted atomic.Int64
	for range 256 {
		callers.Go(func() {
			decision, err := limiter.Allow(context.Background(), "tenant:7")
			if err != nil {
				log.Fatal(err)
			}
			if decision.Allowed {
				admitted.Add(1)
			}
		})
	}
	callers.Wait()
	fmt.Println(admitted.Load(), "of 256 admitted")
	// Output:
	// 100 of 256 admitted
}
