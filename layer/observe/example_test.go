package observe_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/memstore"
)

// The metrics go to the global MeterProvider, which a program sets once with an exporter.
func Example() {
	store, err := observe.New(memstore.NewDefault(), observe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := slidegate.New(store, slidegate.Limit{Name: "per-user", Quota: 2, Window: 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.LimitName, d.Allowed, d.Remaining)
	}
	// Output:
	// per-user true 1
	// per-user true 0
	// per-user false 0
}
