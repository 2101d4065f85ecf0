package failure_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/failure"
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
	patient := failure.Options{Timeout: time.Hour}
	detached := failure.Options{Timeout: time.Hour, MaxDetached: 1000}
	for name, open := range map[string]storetest.Open{
		"in memory": func(t testing.TB, clock *storetest.Clock) store.Store {
			return newStore(t, clocked(t, clock), failure.Open(), failure.Options{})
		},
		"local": func(t testing.TB, clock *storetest.Clock) store.Store {
			return newStore(t, &remote{Store: clocked(t, clock)}, failure.Local(clocked(t, clock)), patient)
		},
		"detached": func(t testing.TB, clock *storetest.Clock) store.Store {
			return waitingStore{newStore(t, &remote{Store: clocked(t, clock)}, failure.Closed(), detached)}
		},
		"optimistic": func(t testing.TB, clock *storetest.Clock) store.Store {
			return newStore(t, &remote{Store: clocked(t, clock)}, failure.Optimistic(5), patient)
		},
		"never up": func(t testing.TB, clock *storetest.Clock) store.Store {
			inner := &remote{Store: clocked(t, clock)}
			inner.fail(errDown)
			memory := clocked(t, clock)
			return &outageStore{Store: newStore(t, inner, failure.Local(memory), patient), memory: memory, t: t}
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.Run(t, open) })
	}
}

// waitingStore waits for detached calls that were abandoned: the suite counts what they charge after the caller has left,
// although the caller cannot know it.
type waitingStore struct{ *failure.Store }

func (p waitingStore) Apply(ctx context.Context, batch []store.Request) error {
	defer p.wait()
	return p.Store.Apply(ctx, batch)
}

func (p waitingStore) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	defer p.wait()
	return p.Store.TakeSingle(ctx, limit, key, cost)
}

func (p waitingStore) wait() {
	for p.Stats().Detached > 0 {
		runtime.Gosched()
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
			c.At = -c.At
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
	if !flags.FallbackLocal() || *at >= 0 {
		n.t.Errorf("an answer of the fallback is not marked: flags %d, at %d", *flags, *at)
	}
	*flags &^= rule.FallbackLocal
	*at = -*at
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
	plain := newStore(t, inner, failure.Open(), failure.Options{})
	if plain.Traits() != inner.Traits() {
		t.Errorf("got traits %+v", plain.Traits())
	}
	local := newStore(t, inner, failure.Local(smallLimits{inner}), failure.Options{})
	if want := (store.Traits{Name: "remote", MaxCharges: 2, RoundTrips: 1, ServerClock: true}); local.Traits() != want {
		t.Errorf("got traits %+v", local.Traits())
	}
	halved := newStore(t, inner, failure.Local(smallLimits{inner}), failure.Options{Instances: 2})
	below := newStore(t, smallLimits{inner}, failure.Local(inner), failure.Options{})
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

// Errors about invalid options name the field.
func TestNewRefuses(t *testing.T) {
	inner := newRemote(t)
	for _, c := range []struct {
		store  store.Store
		policy failure.Policy
		opts   failure.Options
		text   string
	}{
		{nil, failure.Open(), failure.Options{}, "store: must not be nil"},
		{inner, failure.Policy{}, failure.Options{}, "policy: must be Open(), Closed(), Local(store) or Optimistic(k)"},
		{inner, failure.Local(nil), failure.Options{}, "policy: Local needs a store"},
		{inner, failure.Open(), failure.Options{Timeout: -1}, "Timeout: must be up to 24h0m0s"},
		{inner, failure.Open(), failure.Options{Timeout: 25 * time.Hour}, "Timeout: "},
		{inner, failure.Open(), failure.Options{Failures: -1}, "Failures: "},
		{inner, failure.Open(), failure.Options{ProbeEvery: -1}, "ProbeEvery: "},
		{inner, failure.Open(), failure.Options{ProbeEvery: 99 * time.Millisecond}, "ProbeEvery: must be from Timeout, 100ms, up to"},
		{inner, failure.Open(), failure.Options{ProbeEvery: 25 * time.Hour}, "ProbeEvery: "},
		{inner, failure.Local(inner), failure.Options{Instances: -1}, "Instances: "},
		{inner, failure.Closed(), failure.Options{Instances: 2}, "Instances: 2 applies to Local only, not to the policy closed"},
		{inner, failure.Open(), failure.Options{MaxDetached: -1}, "MaxDetached: "},
		{inner, failure.Optimistic(0), failure.Options{}, "policy: Optimistic: must be 1 to 9007199254740991 units, not 0"},
		{inner, failure.Optimistic(1 << 53), failure.Options{}, "policy: Optimistic: "},
		{inner, failure.Optimistic(1), failure.Options{MaxPending: -1}, "MaxPending: must be 1 or more"},
		{inner, failure.Open(), failure.Options{MaxPending: 1}, "MaxPending: 1 applies to Optimistic only, not to the policy open"},
	} {
		_, err := failure.New(c.store, c.policy, c.opts)
		if err == nil || !strings.HasPrefix(err.Error(), "failure: "+c.text) {
			t.Errorf("%+v: got error %v, want %q", c.opts, err, c.text)
		}
	}
	if _, err := failure.New(inner, failure.Open(), failure.Options{Timeout: 2 * time.Second}); err != nil {
		t.Errorf("a timeout longer than the default interval: %v", err)
	}
	names := fmt.Sprint(failure.Open(), failure.Closed(), failure.Local(inner), failure.Optimistic(1), failure.Policy{})
	if names != "open closed local optimistic none" {
		t.Errorf("got policy names %s", names)
	}
}
