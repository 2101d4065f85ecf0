package stack_test

import (
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// Redis with a fallback is two calls. While it does not answer, this process counts the same limits itself; a login is
// refused.
func Example() {
	redis := &remote{Store: memstore.NewDefault(), trips: 1} // in a program: redisstore.Open(ctx, "redis://localhost:6379")
	st, err := stack.New(redis, stack.Options{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer st.Close(ctx)
	api := slidegate.MustNew(st, slidegate.Limit{Name: "api", Quota: 2, Window: time.Hour})
	login := slidegate.MustNew(store.In(st, store.FailClosed), slidegate.Limit{Name: "login", Quota: 5, Window: time.Hour})

	redis.away.Store(true)
	for range 3 {
		d, _ := api.Allow(ctx, "ann")
		fmt.Println("api", d.Allowed, d.Flags)
	}
	d, _ := login.Allow(ctx, "ann")
	fmt.Println("login", d.Allowed, d.Flags)
	fmt.Println("store:", st.Health())
	// Output:
	// api true fallback-local
	// api true fallback-local
	// api false fallback-local
	// login false fallback-closed
	// store: failure: store unavailable: remote: no route to host: the store is down: not carried out
}
