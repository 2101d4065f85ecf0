package memstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
)

// A request has read its key's state when the key is forgotten, and its slot given to a key with the same counts. Its
// charge must not go to the other key: the remaining units that it returned are what the key has from then on.
func TestKeyForgottenDuringADecision(t *testing.T) {
	for _, limit := range limitsOfAllForms(10) {
		t.Run(limit.String(), func(t *testing.T) {
			clock := storetest.NewClock(startMicros)
			var armed atomic.Bool
			reading, goOn := make(chan struct{}), make(chan struct{})
			st := openTiny(t, memstore.Options{Now: func() rule.Micros {
				if armed.CompareAndSwap(true, false) {
					close(reading)
					<-goOn
				}
				return clock.Now()
			}})
			limiter := newLimiter(t, st, limit)
			unit := limit.Quota / 10
			for i := 0; st.Stats().Evictions < 100; i++ { // no page is split from here on
				allow(t, limiter, fmt.Sprint("early", i), unit)
			}
			allow(t, limiter, "key", unit)
			armed.Store(true)
			late := make(chan slidegate.Decision)
			go func() {
				d, err := limiter.AllowN(context.Background(), "key", unit)
				if err != nil {
					t.Error(err)
				}
				late <- d
			}()
			<-reading
			peek := func() slidegate.Decision { return testkit.Must(limiter.Peek(t.Context(), "key", 1))(t) }
			for i := 0; peek().Flags&rule.Inherited == 0; i++ {
				if i == 100_000 {
					t.Fatal("the key was never forgotten")
				}
				allow(t, limiter, fmt.Sprint(i), unit)
			}
			close(goOn)
			decided := <-late
			if left := peek().Remaining; !decided.Allowed || left > decided.Remaining {
				t.Errorf("the late request got %d remaining, but %d remain (admitted: %v)", decided.Remaining, left, decided.Allowed)
			}
		})
	}
}
