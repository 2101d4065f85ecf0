package failure_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// OnChange is called once, with the reason, when the store is no longer called, and once when it is called again: not
// for a single failure that does not open the breaker, nor for failed probes.
func TestOnChange(t *testing.T) {
	each(t, func(t *testing.T, _ rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		var changes []error
		st := newStore(t, inner, policy, failure.Options{Failures: 2, OnChange: func(err error) { changes = append(changes, err) }})
		inner.hang()
		take(st)
		if len(changes) != 0 {
			t.Fatalf("one failure of two: got %v, want no change", changes)
		}
		take(st)
		for range 3 { // each makes a probe, which fails
			testkit.Pass(time.Second)
			take(st)
		}
		if len(changes) != 1 || !errors.Is(changes[0], failure.ErrUnavailable) || !st.Stats().Down {
			t.Fatalf("two failures: got %v, want one change with the error", changes)
		}
		inner.heal()
		testkit.Pass(time.Second)
		take(st)
		take(st)
		if len(changes) != 2 || changes[1] != nil || st.Stats().Down {
			t.Fatalf("the store is back: got %v, want a second change without an error", changes)
		}
	})
}
