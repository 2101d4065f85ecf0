package httplimit

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// hookStore is a store in process that passes requests to apply first, which may fail. It is not a SingleTaker.
type hookStore struct {
	store      store.Store
	apply      func(ctx context.Context, r *store.Request) error
	maxCharges int // maximum of charges; 16 if it is 0
	trips      int // in its traits: only a store with round trips can have outages
}

// newHookStore returns a store at noon.
func newHookStore(t testing.TB, apply func(context.Context, *store.Request) error) *hookStore {
	t.Helper()
	store := testkit.Must(memstore.New(memstore.Options{Now: func() rule.Micros { return noon }}))(t)
	return &hookStore{store: store, apply: apply}
}

func (b *hookStore) Apply(ctx context.Context, batch []store.Request) error {
	if err := b.apply(ctx, &batch[0]); err != nil {
		return err
	}
	return b.store.Apply(ctx, batch)
}

func (b *hookStore) Check(limit *store.Limit) error { return b.store.Check(limit) }

func (b *hookStore) Traits() store.Traits {
	traits := b.store.Traits()
	traits.Name = "between"
	traits.MaxCharges, traits.RoundTrips = 16, b.trips
	if b.maxCharges > 0 {
		traits.MaxCharges = b.maxCharges
	}
	return traits
}

// blocked does not answer until the context ends.
func blocked(ctx context.Context, _ *store.Request) error {
	<-ctx.Done()
	return ctx.Err()
}

// flaggedStore is a store that answers every request with these flags, as a layer does when its own store has failed.
type flaggedStore struct {
	hookStore
	allowed bool
	flags   rule.Flags
}

func (f *flaggedStore) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch[0].Answers {
		batch[0].Answers[i] = rule.Answer{Allowed: f.allowed, Flags: f.flags, At: noon}
	}
	return nil
}
