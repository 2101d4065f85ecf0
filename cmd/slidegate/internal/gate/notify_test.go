package gate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A settlement that charges more than was reserved crosses thresholds too, and so does a reservation.
func TestCrossingsOfReservations(t *testing.T) {
	for _, text := range []string{"100/1h", "100/1h hold=1m", "100/1h token-bucket"} {
		var crossed []string
		own := limit(text)
		g := newGate(t, memory(t, newClock()), gate.Options{OnCrossed: func(c gate.Crossing) {
			crossed = append(crossed, fmt.Sprintf("%s %s %s %d%%", c.Policy, c.Key, c.Limit, c.Percent))
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
		if want := []string{"api ann " + text + " 20%", "api ann " + text + " 80%"}; !slices.Equal(crossed, want) {
			t.Errorf("%s: got %q, want %q", text, crossed, want)
		}
	}
}

// afterSettle is a store in which something else happens right after each settlement.
type afterSettle struct {
	store.Store
	then func()
}

func (s *afterSettle) Apply(ctx context.Context, batch []store.Request) error {
	err := s.Store.Apply(ctx, batch)
	if batch[0].Op == rule.Settle {
		s.then()
	}
	return err
}

// A crossing by a settlement shows even if others charge or return units before its caller has the answer.
func TestCrossingsOfSettlementsAmongOthers(t *testing.T) {
	for name, op := range map[string]gate.Op{"others charge": gate.Charge, "others return": gate.Refund} {
		t.Run(name, func(t *testing.T) {
			var crossed []string
			st := &afterSettle{Store: memory(t, newClock())}
			own := limit("100/1h")
			p := config.Policy{Name: "api", Limits: []slidegate.Limit{own}, Notify: []policy.Threshold{{Limit: own, Percent: 80}}}
			g := newGate(t, st, gate.Options{OnCrossed: func(x gate.Crossing) {
				crossed = append(crossed, fmt.Sprintf("%s %s %d%%", x.Key, x.Limit, x.Percent))
			}}, p)
			do := func(op gate.Op, req gate.Request) {
				t.Helper()
				req.Key = "ann"
				if _, err := g.Do(ctx, op, req); err != nil {
					t.Fatal(err)
				}
			}
			st.then = func() { do(op, gate.Request{Cost: 9}) }
			do(gate.Charge, gate.Request{Cost: 76})
			var r slidegate.Reservation
			do(gate.Reserve, gate.Request{Cost: 2, Reservation: &r})
			for range 2 { // the second changes nothing
				do(gate.Settle, gate.Request{Reservation: &r, Used: []slidegate.Used{{Limit: gate.Label(&r.Charges[0].Limit), Cost: 5}}})
			}
			if want := []string{"ann 100/1h 80%"}; !slices.Equal(crossed, want) {
				t.Errorf("got %q, want %q", crossed, want)
			}
		})
	}
}
