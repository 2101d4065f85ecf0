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

// A budget of a thousand per month starts again on the first of the next month, at midnight in the customer's time zone.
func Example_month() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, time.March, 28, 18, 0, 0, 0, berlin) // clocks are set forward that night
	store, err := memstore.New(memstore.Options{Now: func() rule.Micros { return rule.Micros(now.UnixMicro()) }})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.MustParseLimit("1000/month zone=Europe/Berlin"))
	if err != nil {
		log.Fatal(err)
	}
	decide := func(n int64) {
		decision, err := limiter.AllowN(context.Background(), "customer:7", n)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %v, %d left\n", now.Format("2 January 15:04"), decision.Allowed, decision.Remaining)
		if !decision.Allowed {
			fmt.Println("again in", decision.RetryAfter, "on", now.Add(decision.RetryAfter).Format("2 January 15:04"))
		}
		now = now.Add(decision.RetryAfter)
	}
	decide(900)
	decide(200)
	decide(200)
	// Output:
	// 28 March 18:00: true, 100 left
	// 28 March 18:00: false, 100 left
	// again in 77h0m0s on 1 April 00:00
	// 1 April 00:00: true, 800 left
}
