package slidegate

import (
	"slices"

	"github.com/slidegate/slidegate/store"
)

// Bound returns the limits that every key faces as stores see them, in the order of Limits. It is for adapters that send
// a store batches of their own.
func (l *Limiter) Bound() []*store.Limit { return slices.Clone(l.limits) }
