package failure_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// unplugged is a store on an unreachable server.
type unplugged struct{ store.Store }

func (unplugged) Traits() store.Traits {
	return store.Traits{Name: "unplugged", MaxCharges: 64, RoundTrips: 1}
}

func (unplugged) Apply(_ context.Context, batch []store.Request) error {
	err := errors.New("unplugged: no route to host")
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

// Four processes share a store. When it cannot be reached, each continues with a quarter of the quota.
func Example() {
	memory := memstore.NewDefault()
	store, err := failure.New(unplugged{memory}, failure.Local(memory), failure.Options{Instances: 4})
	if err != nil {
		panic(err)
	}
	limiter, err := slidegate.New(store, slidegate.PerHour(10))
	if err != nil {
		panic(err)
	}
	for range 4 {
		d, err := limiter.Allow(context.Background(), "alice")
		if err != nil {
			panic(err)
		}
		fmt.Println("allowed:", d.Allowed, "by the fallback:", d.Flags.FallbackLocal())
	}
	stats := store.Stats()
	fmt.Println("fallbacks:", stats.Fallbacks, "failed calls:", stats.Failures)
	// Output:
	// allowed: true by the fallback: true
	// allowed: true by the fallback: true
	// allowed: true by the fallback: true
	// allowed: false by the fallback: true
	// fallbacks: 4 failed calls: 1
}

// While the store cannot be reached, each process admits two units of each key, and owes them to the store.
func ExampleOptimistic() {
	store, err := failure.New(unplugged{memstore.NewDefault()}, failure.Optimistic(2), failure.Options{})
	if err != nil {
		panic(err)
	}
	limiter, err := slidegate.New(store, slidegate.PerHour(10))
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, err := limiter.Allow(context.Background(), "alice")
		if err != nil {
			panic(err)
		}
		fmt.Println("allowed:", d.Allowed, "remaining:", d.Remaining, "without the store:", d.Flags.FallbackOptimistic())
	}
	fmt.Println("owed:", store.Stats().Owed)
	fmt.Println(store.Close(context.Background())) // when the program ends
	// Output:
	// allowed: true remaining: 1 without the store: true
	// allowed: true remaining: 0 without the store: true
	// allowed: false remaining: 0 without the store: true
	// owed: 2
	// failure: not everything was charged: unplugged: no route to host
}
