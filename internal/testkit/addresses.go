package testkit

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/store"
)

// Addresses is a store that records the addresses of all charges, for tests of what a release has promised.
type Addresses struct {
	store.Store
	Seen []string
}

// Apply implements store.Store.
func (a *Addresses) Apply(ctx context.Context, batch []store.Request) error {
	for i := range batch {
		for _, c := range batch[i].Charges {
			a.Seen = append(a.Seen, fmt.Sprintf("namespace %q, limit %q, shape %s, group %q, key %q",
				c.Limit.Namespace(), c.Limit.Name(), shape.Name(c.Limit.Rule()), batch[i].Group, c.Key))
		}
	}
	return a.Store.Apply(ctx, batch)
}
