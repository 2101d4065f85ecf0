package memstore

import (
	"context"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Inspect returns the state of an address; see store.Inspector. For a key that was forgotten, and in rare cases for one that looks like it,
// it is what the key starts with when it comes back.
func (s *Store) Inspect(ctx context.Context, limit *store.Limit, group, key string) (state rule.State, now rule.Micros, err error) {
	if err := ctx.Err(); err != nil {
		return state, 0, endedError(err)
	}
	p, err := s.planOf(limit)
	if err != nil {
		return state, 0, err
	}
	j := s.newJob(rule.Peek, 1)
	defer j.end()
	j.inspected = &state
	c := &j.claims[0]
	c.plan, c.h = p, p.hash(group, key)
	err = j.decide(j.answer[:])
	return state, j.now, err
}

// inspect copies the state of the only claim.
func (j *job) inspect(now rule.Micros) {
	j.claims[0].loadState()
	*j.inspected, j.now = j.claims[0].state.Clone(), now
}
