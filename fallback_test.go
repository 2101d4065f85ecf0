package slidegate_test

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// instead answers as a layer does that stands in for a store: at a moment marked by a minus sign.
type instead struct{}

func (instead) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch {
		for j := range batch[i].Answers {
			batch[i].Answers[j] = rule.Answer{Allowed: true, At: -42}
		}
		batch[i].Err = nil
	}
	return nil
}
func (instead) Check(*store.Limit) error { return nil }
func (instead) Traits() store.Traits     { return store.Traits{Name: "instead", MaxCharges: 2} }

// The mark stays in a reservation, by which units go back to where they were taken, and is not shown in a decision.
func TestMarkedMoment(t *testing.T) {
	limiter, err := slidegate.New(instead{}, slidegate.PerMinute(1))
	if err != nil {
		t.Fatal(err)
	}
	reservation, d, err := limiter.Reserve(t.Context(), "key", 1)
	if err != nil || d.At != 42 || reservation.Charges[0].At != -42 {
		t.Errorf("decided at %d, reserved at %d, %v", d.At, reservation.Charges[0].At, err)
	}
}
