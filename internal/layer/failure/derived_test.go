package failure_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// deriving is a store that does not answer, and waits in its own derived context, as clients with their own timeouts
// do.
type deriving struct{ store.Store }

func (d deriving) Traits() store.Traits {
	traits := d.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

func (d deriving) Apply(ctx context.Context, batch []store.Request) error {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	<-own.Done()
	for i := range batch {
		batch[i].Err = own.Err()
	}
	return own.Err()
}

// derivingOne is deriving for single charges.
type derivingOne struct{ deriving }

func (d derivingOne) TakeSingle(ctx context.Context, _ *store.Limit, _ string, _ int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	return false, 0, 0, 0, 0, 0, d.Apply(ctx, nil)
}

// A store that took too long was not canceled by its caller, whatever error it returns.
func TestTimeoutOfDerivedContexts(t *testing.T) {
	for name, wrap := range map[string]func(store.Store) store.Store{
		"batch":  func(st store.Store) store.Store { return deriving{st} },
		"single": func(st store.Store) store.Store { return derivingOne{deriving{st}} },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testDerived(t, wrap) }) })
	}
}

func testDerived(t *testing.T, wrap func(store.Store) store.Store) {
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var why error
	st := failure.New(wrap(memory), failure.Options{
		Mode: store.FailOpen, Local: memstore.NewDefault(),
		OnFallback: func(_ context.Context, _ store.Mode, _ rule.Op, err error) { why = err },
	})
	defer st.Close()
	limiter, err := slidegate.New(st, slidegate.PerMinute(5))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := limiter.Allow(t.Context(), "key"); err != nil || !d.Allowed {
		t.Errorf("got allowed %t, %v; want the fallback", d.Allowed, err)
	}
	if !errors.Is(why, context.DeadlineExceeded) || errors.Is(why, context.Canceled) {
		t.Errorf("got reason %v, want context.DeadlineExceeded", why)
	}
}
