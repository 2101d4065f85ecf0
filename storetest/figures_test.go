package storetest_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// counted counts the requests to a store.
type counted struct {
	*memstore.Store
	requests *atomic.Int64
}

func (c counted) Apply(ctx context.Context, batch []store.Request) error {
	c.requests.Add(int64(len(batch)))
	return c.Store.Apply(ctx, batch)
}

func (c counted) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	c.requests.Add(1)
	return c.Store.TakeSingle(ctx, limit, key, cost)
}

// The suite makes about as many decisions as docs/writing-a-store.md says.
func TestFiguresOnPages(t *testing.T) {
	if testing.Short() {
		t.Skip("the page is about the whole suite")
	}
	var requests atomic.Int64
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
			return counted{testkit.Must(memstore.New(memstore.Options{Now: clock.Now}))(t), &requests}
		})
	})
	made := float64(requests.Load())
	t.Logf("%.0f decisions", made)
	if got := testkit.Figures(t, "../docs", "writing-a-store.md", `some ([\d,]+) decisions by a virtual clock`)[0]; got < 0.9*made || got > 1.1*made {
		t.Errorf("docs/writing-a-store.md: got %.0f decisions, want about %.0f", got, made)
	}
}
