package storetest

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// misinspected is the reference with a replacement for its Inspect.
type misinspected struct {
	*Reference
	inspect func(r *Reference, limit *store.Limit, group, key string) (rule.State, rule.Micros, error)
}

func (m misinspected) Inspect(_ context.Context, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
	return m.inspect(m.Reference, limit, group, key)
}

// inspectBugs return states that are not those that decide.
func inspectBugs() []bug {
	inspecting := func(inspect func(r *Reference, limit *store.Limit, group, key string) (rule.State, rule.Micros, error)) Open {
		return func(_ testing.TB, clock *Clock) store.Store { return misinspected{NewReference(clock), inspect} }
	}
	spoiling := func(spoil func(s *rule.State, l *rule.Limit)) Open {
		return inspecting(func(r *Reference, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
			s, now, err := r.Inspect(context.Background(), limit, group, key)
			spoil(&s, limit.Rule())
			return s, now, err
		})
	}
	const check = "inspect"
	return []bug{
		{"returns nothing", check, spoiling(func(s *rule.State, _ *rule.Limit) { *s = rule.State{Start: rule.Absent} })},
		{"forgets what is held", check, spoiling(func(s *rule.State, _ *rule.Limit) { s.Holds = nil })},
		{"forgets the end of a bucket", check, spoiling(func(s *rule.State, _ *rule.Limit) { s.Until = 4 * rule.MaxNow })},
		{"forgets slots", check, spoiling(func(s *rule.State, _ *rule.Limit) { s.Slots = nil })},
		{"confuses the parts", check, spoiling(func(s *rule.State, _ *rule.Limit) {
			if n := len(s.Counts); n > 1 {
				s.Counts[0], s.Counts[n-1] = s.Counts[n-1], s.Counts[0]
			}
		})},
		{"returns the state without the group", check, inspecting(func(r *Reference, limit *store.Limit, _, key string) (rule.State, rule.Micros, error) {
			return r.Inspect(context.Background(), limit, "", key)
		})},
		{"returns an old time", check, inspecting(func(r *Reference, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
			s, now, err := r.Inspect(context.Background(), limit, group, key)
			return s, now - 1, err
		})},
		{"returns its own memory", check, inspecting(func(r *Reference, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.states[address(limit.Prefix(), group, key)], r.clock.Now(), nil
		})},
		{"writes", check, inspecting(func(r *Reference, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
			_ = r.Apply(context.Background(), []store.Request{newRequest(rule.Charge, group, store.Charge{Limit: limit, Key: key, Cost: 1})})
			return r.Inspect(context.Background(), limit, group, key)
		})},
		{"ignores the context", check, inspecting(func(r *Reference, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
			return r.Inspect(context.Background(), limit, group, key)
		})},
	}
}
