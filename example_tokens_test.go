package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// The cost of a call to a language model is known only afterwards. Reserve takes an estimate, and Finish replaces it with the
// actual cost, or returns all of it if the call failed and used nothing.
func Example_tokenBudget() {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.MustParseLimit("10_000/24h name=tokens"))
	ctx := context.Background()
	for _, prompt := range []string{"short", "long", "broken", "huge", "short"} {
		if err := complete(ctx, limiter, prompt); err != nil {
			fmt.Printf("%s: %v\n", prompt, err)
		}
		left, err := limiter.Peek(ctx, "team:7", 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %d left\n", prompt, left.Remaining)
	}
	// Output:
	// short: 9500 left
	// long: 6500 left
	// broken: the model did not answer
	// broken: 6500 left
	// huge: 0 left
	// short: over budget
	// short: 0 left
}

// complete calls the model, and reserves 2000 tokens until it is known how many were used.
func complete(ctx context.Context, limiter *slidegate.Limiter, prompt string) (err error) {
	reservation, decision, err := limiter.Reserve(ctx, "team:7", 2000)
	if err != nil {
		return err
	}
	if !decision.Allowed {
		return errors.New("over budget")
	}
	var used []slidegate.Used
	defer func() {
		// This may go beyond the budget: the tokens are used, even if the client has gone.
		if _, failed := limiter.Finish(ctx, reservation, err, used...); failed != nil {
			log.Print(failed) // the estimate stays charged
		}
	}()
	tokens, err := callModel(prompt)
	if tokens > 0 {
		used = append(used, slidegate.Used{Limit: "tokens", Cost: tokens})
	}
	return err
}

// callModel stands in for a model, and returns how many tokens it used.
func callModel(prompt string) (tokens int64, err error) {
	tokens, ok := map[string]int64{"short": 500, "long": 3000, "huge": 8000}[prompt]
	if !ok {
		return 0, errors.New("the model did not answer")
	}
	return tokens, nil
}
