package memstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
)

// A full page is recorded as full. Slots freed by a reset or by expiry are reused nevertheless.
func TestFreedSlotsAreReused(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range limitsOfAllForms(5) {
		for _, how := range []string{"reset", "expire"} {
			t.Run(limit.String()+"/"+how, func(t *testing.T) {
				clock := storetest.NewClock(1_767_225_600_000_000)
				store := openTiny(t, memstore.Options{Now: clock.Now})
				limiter := newLimiter(t, store, limit)
				n := 0
				add := func(keys int) (evictions int64) {
					before := store.Stats().Evictions
					for range keys {
						allow(t, limiter, fmt.Sprint(n), 1)
						n++
					}
					return store.Stats().Evictions - before
				}
				held := 0
				for add(100) < 100 { // until every new key replaces another one
					held += 100
				}
				if how == "reset" {
					for i := range n {
						if err := limiter.Reset(context.Background(), fmt.Sprint(i)); err != nil {
							t.Fatal(err)
						}
					}
				} else {
					clock.Advance(3 * rule.Micros(limit.Window.Microseconds()))
				}
				if lost := add(held / 4); lost > int64(held/40) {
					t.Errorf("%d of %d new keys replaced another one although all slots were free", lost, held/4)
				}
			})
		}
	}
}
