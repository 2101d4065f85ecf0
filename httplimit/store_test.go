package httplimit

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// between is a store in process whose requests go through apply first, which sees them and may fail. It is no OneTaker.
type between struct {
	store slidegate.Store
	apply func(ctx context.Context, r *slidegate.Request) error
	most  int // charges at once; 16 if it is 0
}

// newBetween returns a store at noon.
func newBetween(t testing.TB, apply func(context.Context, *slidegate.Request) error) *between {
	t.Helper()
	store, err := memstore.New(memstore.Options{Now: func() slidegate.Micros { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return &between{store: store, apply: apply}
}

func (b *between) Apply(ctx context.Context, batch []slidegate.Request) error {
	if err := b.apply(ctx, &batch[0]); err != nil {
		return err
	}
	return b.store.Apply(ctx, batch)
}

func (b *between) Check(limit *slidegate.BoundLimit) error { return b.store.Check(limit) }

func (b *between) Traits() slidegate.Traits {
	traits := b.store.Traits()
	traits.Name = "between"
	traits.MaxCharges = 16
	if b.most > 0 {
		traits.MaxCharges = b.most
	}
	return traits
}

// blocked answers nothing until the context ends.
func blocked(ctx context.Context, _ *slidegate.Request) error {
	<-ctx.Done()
	return ctx.Err()
}

// flagged is a store that answers every request with these flags, as a layer does whose own store has failed.
type flagged struct {
	between
	allowed bool
	flags   slidegate.Flags
}

func (f *flagged) Apply(_ context.Context, batch []slidegate.Request) error {
	for i := range batch[0].Answers {
		batch[0].Answers[i] = slidegate.Answer{Allowed: f.allowed, Flags: f.flags, At: noon}
	}
	return nil
}
