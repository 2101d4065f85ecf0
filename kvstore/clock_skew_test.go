package kvstore_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// skewedEngine is an engine with a clock that differs from the clocks of other processes.
type skewedEngine struct {
	*kvtest.Table
	now rule.Micros
}

func (e *skewedEngine) Now() rule.Micros { return e.now }

// A process whose clock is behind decides no earlier than the entry's last change. If it is far behind, a clock was set, and its
// own clock decides.
func TestTimeDoesNotGoBackwardsForAKey(t *testing.T) {
	const base = rule.Micros(1_800_000_100e6) // in the middle of an hour
	for behind, want := range map[time.Duration]rule.Micros{
		-time.Millisecond:              base + 1_000,
		0:                              base,
		time.Millisecond:               base,
		time.Second:                    base,
		time.Second + time.Microsecond: base - 1_000_001,
	} {
		table := &kvtest.Table{}
		ahead := newStore(t, &skewedEngine{table, base}, kvstore.Options{})
		other := newStore(t, &skewedEngine{table, base - rule.Micros(behind.Microseconds())}, kvstore.Options{})
		take(t, ahead, "key", true)
		for _, op := range []rule.Op{rule.Peek, rule.Take, rule.GiveBack} {
			r := request(op, "key")
			r.Charges[0].At = rule.Oldest
			if err := other.Apply(t.Context(), []store.Request{r}); err != nil {
				t.Fatal(err)
			}
			if got := r.Answers[0].At; got != want {
				t.Errorf("%v behind: operation %d was decided at %d, want %d", behind, op, got-base, want-base)
			}
		}
	}
}
