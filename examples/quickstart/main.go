// Command quickstart admits three requests per second, and waits exactly as long as a refusal says.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

func main() {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.PerSecond(3))
	for range 5 {
		decision, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			panic(err) // the store did not answer; a refusal is never an error
		}
		fmt.Println(decision.Allowed, decision.RetryAfter.Round(100*time.Millisecond))
		time.Sleep(decision.RetryAfter) // 0 if the request was admitted
	}
}
