package slidegate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// Several limits with different keys and costs can apply to one request: its user's, its tenant's, and a budget for all.
// Either all are charged or none is.
//
// The group is part of every address, and a store made of several nodes keeps a group on one of them. All tenants share one
// group here: with a group per tenant, each would have its own budget.
func Example_tenants() {
	limiter, err := slidegate.New(memstore.NewDefault())
	if err != nil {
		log.Fatal(err)
	}
	var (
		perUser   = slidegate.MustParseLimit("2/1m name=user")
		perTenant = slidegate.MustParseLimit("3/1m name=tenant")
		budget    = slidegate.MustParseLimit("100/24h name=budget")
	)
	for _, from := range []struct{ user, tenant string }{
		{"ann", "acme"}, {"ann", "acme"}, {"ann", "acme"}, {"bob", "acme"}, {"bob", "acme"},
		{"cyd", "corp"}, {"dee", "corp"}, {"eve", "euro"},
	} {
		decision, err := limiter.For(
			slidegate.Claim{Limit: perUser, Key: from.user, Cost: 1},
			slidegate.Claim{Limit: perTenant, Key: from.tenant, Cost: 1},
			slidegate.Claim{Limit: budget, Cost: 20},
		).InGroup("chat").Allow(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %v, %d of %d left by %s\n",
			from.user, decision.Allowed, decision.Remaining, decision.Quota, decision.LimitName)
	}
	// Output:
	// ann: true, 1 of 2 left by user
	// ann: true, 0 of 2 left by user
	// ann: false, 0 of 2 left by user
	// bob: true, 0 of 3 left by tenant
	// bob: false, 0 of 3 left by tenant
	// cyd: true, 1 of 2 left by user
	// dee: true, 0 of 100 left by budget
	// eve: false, 0 of 100 left by budget
}
