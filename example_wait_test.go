package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// A client that must not exceed another service's limit waits for its turn. If the deadline would come first, Wait returns
// immediately, and reports how long the wait would have taken.
func ExampleLimiter_Wait() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) // fixed, so that the output is always the same
	store, err := memstore.New(memstore.Options{Now: func() rule.Micros { return rule.Micros(now.UnixMicro()) }})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.MustParseLimit("2/1m sliding-log")) // never more than 2 in any minute
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for range 3 {
		err := limiter.Wait(ctx, "partner", 1)
		var late *slidegate.DeadlineError
		if errors.As(err, &late) {
			fmt.Println("not within 5s: it takes", late.RetryAfter)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("our turn")
	}
	// Output:
	// our turn
	// our turn
	// not within 5s: it takes 1m0s
}
