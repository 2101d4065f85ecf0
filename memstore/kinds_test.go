package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// TakeSingle decides as Apply does for a request without an ID, over every kind of state.
func TestTakeSingleMatchesApply(t *testing.T) {
	clock := storetest.NewClock(1_767_225_600_000_000)
	single, batch := open(t, memstore.Options{Now: clock.Now}), open(t, memstore.Options{Now: clock.Now})
	limits := everyLimit(t, 3)
	random := rand.New(rand.NewPCG(15, 0))
	for range 20_000 {
		c := store.Charge{Limit: limits[random.IntN(len(limits))], Key: fmt.Sprint(random.IntN(3)), Cost: random.Int64N(3)}
		if c.Limit.Rule().Algorithm == rule.InFlight {
			c.Cost = min(c.Cost, 1)
		}
		want := decide(t, batch, rule.Take, 0, c)[0]
		allowed, flags, remaining, after, resetAfter, at, err := single.TakeSingle(t.Context(), c.Limit, c.Key, c.Cost)
		if err != nil || allowed != want.Allowed || flags != want.Flags || remaining != want.Remaining ||
			after != answering.After(&want) || resetAfter != want.ResetAfter || at != want.At {
			t.Fatalf("%s, cost %d: %v %v %d %d %d %d, %v, want %+v", c.Limit.Name(), c.Cost, allowed, flags, remaining, after, resetAfter, at, err, want)
		}
		if random.IntN(8) == 0 { // another request takes or releases slots
			op, id := []rule.Op{rule.Take, rule.GiveBack}[random.IntN(2)], rule.ID(1+random.IntN(3))
			c.Cost, c.At = 1, clock.Now()
			decide(t, batch, op, id, c)
			decide(t, single, op, id, c)
		}
		clock.Advance(rule.Micros(random.Int64N(4_000_000)))
	}
}

// Taking, renewing and releasing slots, calendar windows, and a repeated settlement do not allocate.
func TestNoAllocationsOfReservations(t *testing.T) {
	memstore.Alone(t) // the race detector empties pools
	st := open(t, memstore.Options{})
	for _, limit := range everyLimit(t, 5) {
		charges := []store.Charge{{Limit: limit, Key: "key", Cost: 1, At: 1}}
		batch := []store.Request{{Charges: charges, Answers: make([]rule.Answer, 1)}}
		round := func() {
			for _, op := range []rule.Op{rule.Take, rule.Renew, rule.GiveBack, rule.Settle} {
				for id := range rule.ID(3) {
					batch[0].Op, batch[0].ID = op, id+1
					if err := st.Apply(t.Context(), batch); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		round()
		if n := testing.AllocsPerRun(200, round); n > 0 {
			t.Errorf("%s: %v allocations per round, want 0", limit.Name(), n)
		}
	}
}
