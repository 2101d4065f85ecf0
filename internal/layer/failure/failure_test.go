package failure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func clocked(t testing.TB, clock *storetest.Clock) store.Store {
	store, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Over a store that answers, the layer has no visible effect.
func TestSuite(t *testing.T) {
	for name, open := range map[string]storetest.Open{
		"in memory": func(t testing.TB, clock *storetest.Clock) store.Store {
			return newStore(t, clocked(t, clock), store.FailOpen, failure.Options{})
		},
		"local": func(t testing.TB, clock *storetest.Clock) store.Store {
			return newStore(t, &remote{Store: clocked(t, clock)}, store.FailLocal, failure.Options{Timeout: time.Hour, Local: clocked(t, clock)})
		},
		"closed": func(t testing.TB, clock *storetest.Clock) store.Store {
			return newStore(t, &remote{Store: clocked(t, clock)}, store.FailClosed, failure.Options{Timeout: time.Hour})
		},
		"never up": func(t testing.TB, clock *storetest.Clock) store.Store {
			inner := &remote{Store: clocked(t, clock)}
			inner.fail(errDown)
			memory := clocked(t, clock)
			return &outageStore{Store: newStore(t, inner, store.FailLocal, failure.Options{Timeout: time.Hour, Local: memory}), memory: memory, t: t}
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.Run(t, open) })
	}
}

// outageStore hides the intended differences of a store in an outage: flags, negative times, and resets that are done in
// the fallback and still return an error. What remains are the answers of the fallback, which must be exact.
type outageStore struct {
	*failure.Store
	memory store.Store
	t      testing.TB
}

func (n *outageStore) Apply(ctx context.Context, batch []store.Request) error {
	apart := func(r store.Request) bool { return r.Op == rule.Reset || lacksOrigin(&r) }
	if len(batch) == 1 || !slices.ContainsFunc(batch, apart) {
		return n.apply(ctx, batch)
	}
	var first error
	for i := range batch {
		if err := n.apply(ctx, batch[i:i+1]); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// lacksOrigin reports whether a settlement does not identify where its units were taken, so that the layer has to
// leave it to the store.
func lacksOrigin(r *store.Request) bool {
	return r.Op == rule.Settle && !slices.ContainsFunc(r.Charges, func(c store.Charge) bool {
		return c.At != 0 || c.Limit.Rule().Algorithm == rule.InFlight
	})
}

func (n *outageStore) apply(ctx context.Context, batch []store.Request) error {
	if len(batch) == 1 && lacksOrigin(&batch[0]) {
		return n.memory.Apply(ctx, batch)
	}
	theirs := make([]store.Request, len(batch))
	for i, r := range batch {
		theirs[i] = r
		theirs[i].Charges = nil
		for _, c := range r.Charges {
			if c.At == 0 && (r.Op == rule.Renew || r.Op == rule.Settle && c.Limit.Rule().Algorithm == rule.InFlight) {
				c.At = 1 // slots have no time, but the layer has to know where they were taken
			}
			if c.At > 0 {
				c.At = answering.Mark(c.At, n.Mark())
			}
			theirs[i].Charges = append(theirs[i].Charges, c)
		}
	}
	_ = n.Store.Apply(ctx, theirs)
	var first error
	for i := range batch {
		r := &batch[i]
		r.Err = theirs[i].Err
		if r.Op == rule.Reset && errors.Is(r.Err, errDown) { // done; a peek returns the same answer as a reset
			look := []store.Request{*r}
			look[0].Op, look[0].Charges = rule.Peek, nil
			for _, c := range r.Charges {
				c.Cost = 0
				look[0].Charges = append(look[0].Charges, c)
			}
			r.Err = n.memory.Apply(ctx, look)
		} else if r.Err == nil {
			for j := range r.Answers {
				n.plain(&r.Answers[j].Flags, &r.Answers[j].At)
			}
		}
		if r.Err != nil && first == nil {
			first = r.Err
		}
	}
	return first
}

func (n *outageStore) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	allowed, flags, remaining, after, resetAfter, at, err = n.Store.TakeSingle(ctx, limit, key, cost)
	if err == nil {
		n.plain(&flags, &at)
	}
	return allowed, flags, remaining, after, resetAfter, at, err
}

func (n *outageStore) plain(flags *rule.Flags, at *rule.Micros) {
	if *flags&rule.FallbackLocal == 0 || *at >= 0 {
		n.t.Errorf("an answer of the fallback is not marked: flags %d, at %d", *flags, *at)
	}
	*flags &^= rule.FallbackLocal
	*at, _ = answering.Unmark(*at)
}

// smallLimits is a store that supports only small limits.
type smallLimits struct{ store.Store }

func (smallLimits) Traits() store.Traits { return store.Traits{Name: "few", MaxCharges: 2} }

func (smallLimits) Check(limit *store.Limit) error {
	if limit.Rule().Quota > 50 {
		return fmt.Errorf("few: %w: too much", store.ErrUnsupported)
	}
	return nil
}

// A limiter must not be promised more than the store and the fallback support.
func TestTraitsAndCheck(t *testing.T) {
	inner := newRemote(t)
	plain := newStore(t, inner, store.FailOpen, failure.Options{})
	if plain.Traits() != inner.Traits() {
		t.Errorf("got traits %+v", plain.Traits())
	}
	local := newStore(t, inner, store.FailLocal, failure.Options{Local: smallLimits{inner}})
	if want := (store.Traits{Name: "remote", MaxCharges: 2, RoundTrips: 1, ServerClock: true}); local.Traits() != want {
		t.Errorf("got traits %+v", local.Traits())
	}
	halved := newStore(t, inner, store.FailLocal, failure.Options{Local: smallLimits{inner}, Instances: 2})
	below := newStore(t, smallLimits{inner}, store.FailLocal, failure.Options{})
	for _, c := range []struct {
		store  *failure.Store
		quota  int64
		wanted error
	}{
		{plain, 60, nil}, {local, 60, store.ErrUnsupported}, {local, 50, nil}, {halved, 60, nil}, {halved, 101, store.ErrUnsupported},
		{below, 60, store.ErrUnsupported},
	} {
		if err := c.store.Check(bind(t, slidegate.PerHour(c.quota))); !errors.Is(err, c.wanted) {
			t.Errorf("a quota of %d: got %v, want %v", c.quota, err, c.wanted)
		}
	}
}
