package slidegate_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// Ten per second and a thousand per hour: both limits apply to every key, all or nothing. The decision reports which of
// them decided, and the answer of each.
func Example_severalLimits() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) // fixed, so that the output is always the same
	store, err := memstore.New(memstore.Options{Now: func() rule.Micros { return rule.Micros(now.UnixMicro()) }})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.PerSecond(10), slidegate.PerHour(1000))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		decision, err := limiter.AllowN(context.Background(), "user:42", 4)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v by %s: %d left, retry after %v\n", decision.Allowed, decision.LimitName, decision.Remaining, decision.RetryAfter)
		for i, answer := range decision.Answers {
			fmt.Printf("  %v: %v, %d left\n", limiter.Limits()[i], answer.Allowed, answer.Remaining)
		}
	}
	// Output:
	// true by 10/1s: 6 left, retry after 0s
	//   10/1s: true, 6 left
	//   1000/1h: true, 996 left
	// true by 10/1s: 2 left, retry after 0s
	//   10/1s: true, 2 left
	//   1000/1h: true, 992 left
	// false by 10/1s: 2 left, retry after 1s
	//   10/1s: false, 2 left
	//   1000/1h: true, 992 left
}
