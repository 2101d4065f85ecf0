package store

import (
	"context"

	"github.com/slidegate/slidegate/rule"
)

// Inspector is an optional interface for Stores that can return what they keep of a key, for people who look at it; see
// rule.Limit.Usage. As finds it under any number of layers, which take no part in it: units that a process has leased are among those
// that were charged.
type Inspector interface {
	// Inspect returns the state of an address as it is stored, and the time that would decide a request. Deciding by both, rule.Decide
	// answers as the store would. It changes nothing, and the state shares no memory with the store.
	Inspect(ctx context.Context, limit *Limit, group, key string) (rule.State, rule.Micros, error)
}
