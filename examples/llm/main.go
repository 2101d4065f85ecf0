// Command llm limits calls to a language model by a budget of tokens and a number of calls per team. The cost of a call is
// known only afterwards, so it holds the most that the call may cost until it has ended, and then settles it at the actual cost.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// Limits of different things need names: what was used is settled by name.
var (
	tokens = slidegate.Limit{Name: "tokens", Quota: 10_000, Window: time.Minute, Hold: 30 * time.Second}
	calls  = slidegate.Limit{Name: "calls", Quota: 5, Window: time.Minute}
)

func main() {
	limiter, err := slidegate.New(slidegate.Namespace(memstore.NewDefault(), "llm"))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for _, prompt := range []string{"short", "long", "broken", "huge", "short"} {
		outcome := "ok"
		body := fmt.Appendf(nil, `{"prompt": %q, "max_tokens": 2000}`, prompt)
		if err := complete(ctx, limiter, "team:7", body); err != nil {
			outcome = err.Error()
		}
		left, err := limiter.For(slidegate.Claim{Limit: tokens, Key: "team:7"}).Peek(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-6s  %-26s  %5d tokens left\n", prompt, outcome, left.Remaining)
	}
}

// complete calls the model with the body of a request, and holds its max_tokens until it is known how many were used.
func complete(ctx context.Context, limiter *slidegate.Limiter, team string, body []byte) (err error) {
	var request struct {
		Prompt    string `json:"prompt"`
		MaxTokens int64  `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return err
	}
	reservation, decision, err := limiter.For(
		slidegate.Claim{Limit: tokens, Key: team, Cost: request.MaxTokens},
		slidegate.Claim{Limit: calls, Key: team},
	).Reserve(ctx)
	if err != nil {
		return err // the store did not answer
	}
	if !decision.Allowed {
		return fmt.Errorf("refused by %s", decision.LimitName)
	}
	var used []slidegate.Used
	defer func() { // settles at what was used; if the call failed and used nothing, gives everything back
		if _, failed := limiter.Finish(ctx, reservation, err, used...); failed != nil {
			log.Print(failed) // the tokens stay held for 30 seconds
		}
	}()
	ctx, stop := limiter.KeepAlive(ctx, reservation, 10*time.Minute) // the longest that a call may take
	defer stop()

	count, err := callModel(ctx, request.Prompt)
	if count > 0 {
		used = append(used, slidegate.Used{Limit: "tokens", Cost: count})
	}
	return err
}

// callModel stands in for a model, and returns how many tokens it used. A real one stops when ctx ends: the tokens are then no
// longer held.
func callModel(_ context.Context, prompt string) (tokens int64, err error) {
	tokens, ok := map[string]int64{"short": 500, "long": 3000, "huge": 8000}[prompt]
	if !ok {
		return 0, errors.New("the model did not answer")
	}
	return tokens, nil
}
