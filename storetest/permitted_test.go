package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TestPermittedPasses checks the suite from the other side: it must not fail a store for anything that the contract
// permits.
func TestPermittedPasses(t *testing.T) {
	for _, store := range []struct {
		name  string
		short bool // the difference does not affect decisions, so a few are enough
		open  Open
	}{
		{"forgets on expiry", false, openForgetting},
		{"lends its memory to the rule", false, deciding(decidingInPlace)},
		{"decides one charge at a time", true, openPlain(store.Traits{Name: "one", MaxCharges: 1}, nil)},
		{"needs a group", true, openPlain(store.Traits{Name: "nodes", MaxCharges: 20}, nil)},
		{"decides one key at a time", true, openPlain(store.Traits{Name: "entries", MaxCharges: 20, OneKey: true}, nil)},
		{"uses a server's clock", true, openServerClock},
		{"rejects some limits", true, openPlain(store.Traits{Name: "some", MaxCharges: 3}, func(l *rule.Limit) bool {
			return l.Algorithm != rule.SlidingLog && l.Quota < 1<<40 && (l.Segments < 60 || l.Algorithm == rule.DefaultAlgorithm)
		})},
		{"reads the clock once per batch", true, plant(decidingAtOnce)},
	} {
		for _, c := range checks {
			t.Run(store.name+"/"+c.name, func(t *testing.T) {
				s := &suite{open: store.open, short: store.short || testing.Short(), timeout: time.Minute}
				r := record(t, func(t testing.TB) { c.run(t, s) })
				if r.Failed() {
					t.Fatalf("a store that %s fails the check %s: %s", store.name, c.name, r.text())
				}
				if r.Skipped() {
					t.Log(r.text())
				}
			})
		}
	}
}

// openForgetting opens stores that forget everything as early as permitted. They regularly clean up keys that are not used;
// keys that are used they check each time.
func openForgetting(t testing.TB, clock *Clock) store.Store {
	limits := map[string]*rule.Limit{}
	forget := func(r *Reference, name string, now rule.Micros) {
		if state, there := r.states[name]; there && limits[name].Expires(&state) <= now {
			delete(r.states, name)
		}
	}
	return preparing(func(r *Reference, limit *rule.Limit, name string, now rule.Micros) {
		limits[name] = limit
		forget(r, name, now)
		if len(limits)%100 != 0 {
			return
		}
		for name := range limits {
			forget(r, name, now)
		}
	})(t, clock)
}

// decidingInPlace passes the states themselves to the rule instead of copies: what the rule does not report as changed it
// must have left alone.
func decidingInPlace(r *Reference, request *store.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	items := make([]rule.Item, len(request.Charges))
	for i, charge := range request.Charges {
		state := r.states[address(charge.Limit.Prefix(), request.Group, charge.Key)]
		items[i] = rule.Item{
			Limit: charge.Limit.Rule(), State: &state, Cost: charge.Cost, Used: charge.Used, At: charge.At, ID: request.ID,
			Hold: request.Hold,
		}
	}
	if first := request.Charges[0]; request.Op == rule.Settle || request.Once {
		r.onceLocked(address(first.Limit.Prefix(), request.Group, first.Key), items, r.clock.Now(), request)
	} else {
		rule.Decide(request.Op, items, r.clock.Now(), request.Answers)
	}
	for i, charge := range request.Charges {
		r.states[address(charge.Limit.Prefix(), request.Group, charge.Key)] = *items[i].State
	}
}

// decidingAtOnce decides a whole batch under one lock, at one time.
func decidingAtOnce(r *Reference) applyFunc {
	return func(ctx context.Context, batch []store.Request) error {
		if ctx.Err() != nil {
			return r.Apply(ctx, batch)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		now := r.clock.Now()
		for i := range batch {
			batch[i].Err = nil
			r.decideLocked(&batch[i], now)
		}
		return nil
	}
}

// openServerClock opens stores that read the test's clock before they call the server, as they must if it stands in for the
// server's own.
func openServerClock(t testing.TB, clock *Clock) store.Store {
	return served{deciding(readingFirst)(t, clock)}
}

type served struct{ store.Store }

func (s served) Traits() store.Traits {
	return store.Traits{Name: "server", ServerClock: true, MaxCharges: 10, RoundTrips: 1}
}

// plain is a store without optional features.
type plain struct {
	reference *Reference
	traits    store.Traits
	accepts   func(l *rule.Limit) bool
}

func openPlain(traits store.Traits, accepts func(l *rule.Limit) bool) Open {
	return func(_ testing.TB, clock *Clock) store.Store { return plain{NewReference(clock), traits, accepts} }
}

func (p plain) Traits() store.Traits { return p.traits }

func (p plain) Check(limit *store.Limit) error {
	if p.accepts == nil || p.accepts(limit.Rule()) {
		return nil
	}
	return fmt.Errorf("plain: %w: this limit", store.ErrUnsupported)
}

// Apply panics if it receives a request that it reported as unsupported.
func (p plain) Apply(ctx context.Context, batch []store.Request) error {
	for i := range batch {
		request := &batch[i]
		if len(request.Charges) > p.traits.MaxCharges {
			panic("more charges than Traits.MaxCharges")
		}
		for _, charge := range request.Charges {
			if err := p.Check(charge.Limit); err != nil {
				panic(err)
			}
		}
		if p.traits.Name == "nodes" && request.Group == "" && len(request.Charges) > 1 {
			request.Err = fmt.Errorf("plain: %w: several keys need a group", store.ErrUnsupported)
			return request.Err
		}
		if p.traits.OneKey && request.Group == "" && slices.ContainsFunc(request.Charges, func(c store.Charge) bool { return c.Key != request.Charges[0].Key }) {
			request.Err = fmt.Errorf("plain: %w: several keys need a group", store.ErrUnsupported)
			return request.Err
		}
	}
	return p.reference.Apply(ctx, batch)
}
