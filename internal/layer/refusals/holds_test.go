package refusals_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A refusal that holds caused is not remembered: the reservation may end at any time, also in another process.
func TestRefusalsByHolds(t *testing.T) {
	rigs(t, refusals.Options{}, func(r *rig) {
		limit := bound(r.t, slidegate.Limit{Name: "held", Quota: 2, Window: time.Minute, Hold: time.Minute})
		charge := store.Charge{Limit: limit, Key: "k", Cost: 2}
		hold := store.Request{Op: rule.Take, ID: 7, Hold: true, Charges: []store.Charge{charge}}
		testkit.Must(send(context.Background(), r.store, hold))(r.t)
		r.spy.requests.Store(0)
		for range 3 {
			if a := r.take(limit, "k", 1); a.Allowed || a.Flags != rule.Held {
				r.t.Fatalf("got %+v, want a refusal by the store", a)
			}
		}
		r.wantCalls(3, "while units are held")
		settle := store.Request{Op: rule.Settle, ID: 7, Charges: []store.Charge{charge}}
		testkit.Must(send(context.Background(), r.spy, settle))(r.t) // by another process
		if a := r.take(limit, "k", 2); !a.Allowed {
			r.t.Fatalf("after the reservation was cancelled: got %+v", a)
		}
	})
}

// The cache never decides about a call that counts once: the store may have admitted it.
func TestCallsReachTheStore(t *testing.T) {
	r := newRig(t, refusals.Options{}, false)
	limit := fixed(t)
	call := store.Request{Op: rule.Take, ID: 7, Once: true, Charges: []store.Charge{{Limit: limit, Key: "k", Cost: 2}}}
	testkit.Must(send(context.Background(), r.store, call))(t)
	r.take(limit, "k", 1)
	r.spy.requests.Store(0)
	if a := r.take(limit, "k", 1); a.Flags != rule.Cached {
		t.Fatalf("got %+v, want a refusal from the cache", a)
	}
	a := testkit.Must(send(context.Background(), r.store, call))(t)[0]
	if !a.Allowed || a.Flags != rule.Repeated || a.Granted != 2 {
		t.Errorf("a repeated call: got %+v, want it admitted by the store", a)
	}
	r.wantCalls(1, "a repeated call")
}
