package gate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
)

// A settlement that charges more than was reserved crosses thresholds too, and so does a reservation.
func TestCrossingsOfReservations(t *testing.T) {
	for _, text := range []string{"100/1h", "100/1h hold=1m", "100/1h token-bucket"} {
		var crossed []string
		own := limit(text)
		g := newGate(t, memory(t, newClock()), gate.Options{OnCrossed: func(c gate.Crossing) {
			crossed = append(crossed, fmt.Sprintf("%s %s %d%% %d/%d", c.Policy, c.Key, c.Percent, c.Used, c.Size))
		}}, config.Policy{Name: "api", Limits: []slidegate.Limit{own, limit("1000/1h name=other")},
			Notify: []policy.Threshold{{Limit: own, Percent: 20}, {Limit: own, Percent: 80}}})
		settle := func(reserved, used int64) {
			t.Helper()
			var r slidegate.Reservation
			if _, err := g.Do(ctx, gate.Reserve, gate.Request{Key: "ann", Cost: reserved, Reservation: &r}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second changes nothing
				name := gate.Label(&r.Charges[0].Limit)
				if _, err := g.Do(ctx, gate.Settle, gate.Request{Reservation: &r, Used: []slidegate.Used{{Limit: name, Cost: used}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		settle(10, 5)
		settle(10, 10)
		settle(10, 70)
		settle(10, 1)
		settle(1, 3)
		if want := []string{"api ann 20% 25/100", "api ann 80% 85/100"}; !slices.Equal(crossed, want) {
			t.Errorf("%s: got %q, want %q", text, crossed, want)
		}
	}
}
