package refusals_test

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// A client keeps sending after it was refused. With a store in memory there is little to save; over a network, each line that
// says "from memory" saves a round trip.
func Example() {
	inner := memstore.NewDefault()
	store := refusals.New(inner, refusals.Options{})
	limiter, err := slidegate.New(store, slidegate.PerHour(2))
	if err != nil {
		panic(err)
	}
	for range 5 {
		d, err := limiter.Allow(context.Background(), "client")
		if err != nil {
			panic(err)
		}
		switch {
		case d.Allowed:
			fmt.Println("admitted")
		case d.Flags&rule.Cached != 0:
			fmt.Println("refused, from memory")
		default:
			fmt.Println("refused")
		}
	}
	stats := store.Stats()
	fmt.Printf("the store was spared %d of %d calls\n", stats.Hits, stats.Hits+stats.Misses)
	// Output:
	// admitted
	// admitted
	// refused
	// refused, from memory
	// refused, from memory
	// the store was spared 2 of 5 calls
}
