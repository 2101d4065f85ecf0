package slidegate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// An API with plans has a limiter for each plan, or passes the plan's limit with the request. The limits have the same name
// and window, so a customer who changes plans keeps what they have used.
func Example_plans() {
	store := memstore.NewDefault()
	free, err := slidegate.New(store, slidegate.MustParseLimit("5/1h name=api"))
	if err != nil {
		log.Fatal(err)
	}
	pro, err := free.With(slidegate.MustParseLimit("600/1h name=api"))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	decision, err := free.AllowN(ctx, "ann", 5)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("free:", decision.Allowed, "and", decision.Remaining, "left")

	decision, err = pro.Allow(ctx, "ann") // Ann has upgraded, and continues immediately
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("pro:", decision.Allowed, "and", decision.Remaining, "left")

	// A plan that was agreed with one customer comes from a database, as text or as numbers.
	plan, err := slidegate.ParseLimit("2000 per hour name=api")
	if err != nil {
		log.Fatal(err)
	}
	decision, err = free.For(slidegate.Claim{Limit: plan, Key: "ann", Cost: 1}).Allow(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("agreed:", decision.Allowed, "and", decision.Remaining, "left")
	// Output:
	// free: true and 0 left
	// pro: true and 594 left
	// agreed: true and 1993 left
}
