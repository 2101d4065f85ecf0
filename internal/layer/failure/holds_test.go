package failure_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

var heldTen = slidegate.Limit{Name: "held", Quota: 10, Window: time.Second, Hold: 30 * time.Second}

// holdRig sends requests with an ID about one key.
type holdRig struct {
	t     *testing.T
	st    store.Store
	limit *store.Limit
}

func (h *holdRig) send(r store.Request, cost, used int64, at rule.Micros) rule.Answer {
	h.t.Helper()
	r.Charges = []store.Charge{{Limit: h.limit, Key: "k", Cost: cost, Used: used, At: at}}
	r.Answers = make([]rule.Answer, 1)
	if err := h.st.Apply(h.t.Context(), []store.Request{r}); err != nil {
		h.t.Fatalf("%v: %v", r.Op, err)
	}
	return r.Answers[0]
}

func (h *holdRig) want(a rule.Answer, allowed bool, granted int64, flags rule.Flags) {
	h.t.Helper()
	if a.Allowed != allowed || a.Granted != granted || a.Flags != flags {
		h.t.Errorf("got %+v, want allowed %v, %d granted and flags %v", a, allowed, granted, flags)
	}
}

// In the mode local a hold lives where it was taken, also when the store is back: it is renewed, settled and lost there.
func TestHoldsLiveWhereTheyWereTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailLocal, failure.Options{})
		h, direct := &holdRig{t, st, bind(t, heldTen)}, &holdRig{t, inner.Store, bind(t, heldTen)}
		inner.fail(errDown)
		first := h.send(store.Request{Op: rule.Take, ID: 1, Hold: true}, 5, 0, 0)
		h.want(first, true, 5, rule.FallbackLocal)
		h.want(h.send(store.Request{Op: rule.Take, ID: 1, Hold: true}, 5, 0, 0), true, 5, rule.FallbackLocal) // again: not counted twice
		second := h.send(store.Request{Op: rule.Take, ID: 2, Hold: true}, 5, 0, 0)
		h.want(second, true, 5, rule.FallbackLocal)
		if a := h.send(store.Request{Op: rule.Take, ID: 3, Hold: true}, 1, 0, 0); a.Allowed {
			t.Errorf("got %+v although all is held", a)
		}
		inner.heal()
		testkit.Pass(20 * time.Second)
		if a := direct.send(store.Request{Op: rule.Peek}, 10, 0, 0); !a.Allowed {
			t.Errorf("got %+v of the store, want nothing held there", a)
		}
		if a := h.send(store.Request{Op: rule.Renew, ID: 1}, 5, 0, first.At); !a.Allowed {
			t.Errorf("renewed: got %+v", a)
		}
		testkit.Pass(15 * time.Second)
		if a := h.send(store.Request{Op: rule.Renew, ID: 2}, 5, 0, second.At); a.Allowed || a.RetryAfter != rule.Never {
			t.Errorf("renewed what is lost: got %+v", a)
		}
		h.want(h.send(store.Request{Op: rule.Settle, ID: 1}, 5, 3, first.At), true, 2, rule.FallbackLocal)
		h.want(h.send(store.Request{Op: rule.Settle, ID: 1}, 5, 3, first.At), true, 2, rule.FallbackLocal|rule.Repeated)
		h.want(h.send(store.Request{Op: rule.Settle, ID: 2}, 5, 4, second.At), true, -4, rule.FallbackLocal)
		h.want(h.send(store.Request{Op: rule.Settle, ID: 2}, 5, 4, second.At), true, -4, rule.FallbackLocal|rule.Repeated)
	})
}

// A call that counts once is known where it was made, for the mode that counts.
func TestCallsAreKnownWhereTheyWereMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailLocal, failure.Options{})
		h := &holdRig{t, st, bind(t, ten)}
		h.want(h.send(store.Request{Op: rule.Take, ID: 1, Once: true}, 4, 0, 0), true, 4, 0)
		h.want(h.send(store.Request{Op: rule.Take, ID: 1, Once: true}, 4, 0, 0), true, 4, rule.Repeated)
		inner.fail(errDown)
		first := h.send(store.Request{Op: rule.Take, ID: 2, Once: true}, 4, 0, 0)
		h.want(first, true, 4, rule.FallbackLocal)
		for range 3 {
			if a := h.send(store.Request{Op: rule.Take, ID: 2, Once: true}, 4, 0, 0); a.Granted != 4 || a.Flags != rule.FallbackLocal|rule.Repeated || a.At != first.At {
				t.Errorf("a repeated call: got %+v, want what the first did, %+v", a, first)
			}
		}
		inner.heal()
		testkit.Pass(2 * time.Second)
		h.want(h.send(store.Request{Op: rule.Take, ID: 1, Once: true}, 4, 0, 0), true, 4, rule.Repeated)
		h.want(h.send(store.Request{Op: rule.Settle, ID: 1, Once: true}, 0, 0, 0), true, 4, 0) // cancelled
		h.want(h.send(store.Request{Op: rule.Take, ID: 1, Once: true}, 4, 0, 0), false, 0, rule.Repeated)
	})
}

// A refusal that holds caused is not kept for an outage, nor an admission that left nothing of a limit with holds: a hold may end early.
func TestRefusalsByHoldsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		h := &holdRig{t, newStore(t, inner, store.FailLocal, failure.Options{}), bind(t, heldTen)}
		h.want(h.send(store.Request{Op: rule.Take, ID: 1, Hold: true}, 10, 0, 0), true, 10, 0)
		h.want(h.send(store.Request{Op: rule.Take}, 1, 0, 0), false, 0, rule.Held)
		single, err := ways["TakeSingle"](t.Context(), h.st, store.Charge{Limit: h.limit, Key: "k", Cost: 1})
		if err != nil || single.Flags != rule.Held {
			t.Errorf("got %+v, %v, want a refusal by the store", single, err)
		}
		inner.fail(errDown)
		h.want(h.send(store.Request{Op: rule.Take}, 1, 0, 0), true, 1, rule.FallbackLocal)
	})
}
