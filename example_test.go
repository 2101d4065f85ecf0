package slidegate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// A limiter needs a store and a limit. A refusal is a decision, not an error.
func Example() {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.PerMinute(3))
	for range 4 {
		decision, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(decision.Allowed, decision.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}
