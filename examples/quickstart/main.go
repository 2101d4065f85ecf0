// Command quickstart demonstrates a limiter: five requests in any two seconds, a denial that says when to
// come back, and that a request at that time is admitted.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.MustParseLimit("5/2s sliding-log"))
	begin := time.Now()
	for range 8 {
		decision, err := limiter.Allow(ctx, "user:42")
		if err != nil {
			return err
		}
		at := time.Since(begin).Round(time.Millisecond)
		if decision.Allowed {
			fmt.Printf("%6v  allowed, %d of %d remain\n", at, decision.Remaining, decision.Quota)
			continue
		}
		fmt.Printf("%6v  denied, come back in %v\n", at, decision.RetryAfter)
		select {
		case <-time.After(decision.RetryAfter):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
