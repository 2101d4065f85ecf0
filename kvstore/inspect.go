package kvstore

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Inspect returns the state of an address, by one read; see store.Inspector.
func (s *Store) Inspect(ctx context.Context, limit *store.Limit, group, key string) (state rule.State, now rule.Micros, err error) {
	if err := ctx.Err(); err != nil {
		return state, 0, fmt.Errorf("kvstore: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	var known memory
	if err := s.read(ctx, s.entryName(ownerAt(group, key)), &known); err != nil {
		return state, 0, err
	}
	e, err := decodeEntry(known.value)
	if err != nil {
		return state, 0, err
	}
	state, err = e.state(recordID(stateKind, limit.Prefix(), group, key), limit.Rule())
	return state.Clone(), s.decisionTime(e), err
}
