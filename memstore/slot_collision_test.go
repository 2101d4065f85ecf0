package memstore_test

import (
	"fmt"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A request has two new keys, and only the second is charged. If both have the same home slot, the second is behind a slot
// that the first does not use, and must be found there again. This holds for every kind of state.
func TestSecondNewKeyIsFoundAgain(t *testing.T) {
	memstore.Alone(t)
	for _, text := range []string{"10/1s sliding-window", "100000000/1s", "10/1s segments=10", "10/1s token-bucket", "10/1s sliding-log"} {
		limit, err := adapter.Bind("", slidegate.MustParseLimit(text))
		if err != nil {
			t.Fatal(err)
		}
		lost := 0
		const stores = 1500
		for i := range stores {
			second := store.Charge{Limit: limit, Key: fmt.Sprint("b", i), Cost: limit.Rule().Quota}
			batch := []store.Request{
				{Charges: []store.Charge{{Limit: limit, Key: fmt.Sprint("a", i)}, second}, Answers: make([]rule.Answer, 2)},
				{Charges: []store.Charge{second}, Answers: make([]rule.Answer, 1)},
			}
			store, err := memstore.New(memstore.Options{Now: func() rule.Micros { return 1_767_268_800_000_123 }})
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Apply(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			if batch[1].Answers[0].Allowed {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%s: %d of %d keys were admitted twice their quota", text, lost, stores)
		}
	}
}
