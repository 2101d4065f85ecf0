package slidegate_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// A tenant runs at most two reports at a time. Acquire takes a slot, Release frees it. If a process dies, its slot expires
// after thirty seconds, so longer work renews its slot from time to time.
func Example_slots() {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.Slots(2, 30*time.Second))
	ctx := context.Background()

	var held []slidegate.Reservation
	for range 3 {
		slot, decision, err := limiter.Acquire(ctx, "tenant:7")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(decision.Allowed, "and", decision.Remaining, "free")
		if decision.Allowed {
			held = append(held, slot) // in a handler: defer limiter.Release(ctx, slot)
		}
	}

	renewed, err := limiter.Renew(ctx, held[0]) // for example every ten seconds
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("still held:", renewed.Allowed)

	for range 2 { // a caller that got no response may release it again
		if _, err := limiter.Release(ctx, held[0]); err != nil {
			log.Fatal(err)
		}
	}
	lost, err := limiter.Renew(ctx, held[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("still held:", lost.Allowed)
	_, decision, err := limiter.Acquire(ctx, "tenant:7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(decision.Allowed, "and", decision.Remaining, "free")
	// Output:
	// true and 1 free
	// true and 0 free
	// false and 0 free
	// still held: true
	// still held: false
	// true and 0 free
}

// A call to a model takes a slot, one of the requests per minute and an estimate of its tokens in one decision: all of them
// or none. Settling frees the slot, and replaces the estimate with what was used.
func Example_slotRequestAndTokens() {
	limiter, err := slidegate.New(slidegate.Namespace(memstore.NewDefault(), "model"))
	if err != nil {
		log.Fatal(err)
	}
	slots := slidegate.MustParseLimit("2 in-flight ttl=30s name=slots")
	requests := slidegate.MustParseLimit("60/1m name=requests")
	tokens := slidegate.MustParseLimit("10000/1h name=tokens")
	claims := func(key string, estimate int64) slidegate.Claims {
		return limiter.For(
			slidegate.Claim{Limit: slots, Key: key},
			slidegate.Claim{Limit: requests, Key: key},
			slidegate.Claim{Limit: tokens, Key: key, Cost: estimate},
		)
	}
	ctx := context.Background()

	reservation, decision, err := claims("team:7", 700).Reserve(ctx)
	if err != nil || !decision.Allowed {
		log.Fatal(decision, err)
	}
	defer limiter.Cancel(ctx, reservation) // does nothing if the reservation is settled below

	// The model used 450 tokens. If a call returned an error its outcome is unknown, and it is right to repeat it.
	var done slidegate.Settlement
	for range 3 {
		done, err = limiter.Settle(ctx, reservation, slidegate.Used{Limit: "tokens", Cost: 450})
		if err == nil {
			break
		}
	}
	fmt.Println("given back:", done.Returned)
	done, err = limiter.Settle(ctx, reservation, slidegate.Used{Limit: "tokens", Cost: 450})
	fmt.Println("again:", done.Repeated, done.Returned, err)

	left, err := claims("team:7", 1).Peek(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for i, what := range []string{"slots", "requests", "tokens"} {
		fmt.Println(what, "left:", left.Answers[i].Remaining)
	}
	// Output:
	// given back: [1 0 250]
	// again: true [1 0 250] <nil>
	// slots left: 2
	// requests left: 59
	// tokens left: 9550
}
