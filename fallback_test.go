package slidegate_test

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// fallback is a layer that decides in place of a store: it marks its times with a minus sign.
type fallback struct{}

func (fallback) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch {
		for j := range batch[i].Answers {
			batch[i].Answers[j] = rule.Answer{Allowed: true, At: -42}
		}
		batch[i].Err = nil
	}
	return nil
}
func (fallback) Check(*store.Limit) error { return nil }
func (fallback) Traits() store.Traits     { return store.Traits{Name: "fallback", MaxCharges: 2} }

// The mark stays in a reservation, which needs it to return units to where they were taken, and is not shown in a decision.
func TestFallbackMarkStaysInReservation(t *testing.T) {
	limiter, err := slidegate.New(fallback{}, slidegate.PerMinute(1))
	if err != nil {
		t.Fatal(err)
	}
	reservation, d, err := limiter.Reserve(t.Context(), "key", 1)
	if err != nil || d.At != 42 || reservation.Charges[0].At != -42 {
		t.Errorf("decided at %d, reserved at %d, %v", d.At, reservation.Charges[0].At, err)
	}
}
