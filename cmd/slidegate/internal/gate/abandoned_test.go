package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// lateStore decides at once and calls answered before it answers.
type lateStore struct {
	store.Store
	trips    int
	answered func(ctx context.Context, op rule.Op) error
}

func (l *lateStore) Traits() store.Traits {
	traits := l.Store.Traits()
	traits.RoundTrips = l.trips
	return traits
}

func (l *lateStore) Apply(ctx context.Context, batch []store.Request) error {
	if err := l.Store.Apply(ctx, batch); err != nil {
		return err
	}
	return l.answered(ctx, batch[0].Op)
}

// TestAbandonedReservationIsCancelled: what is taken for a client that leaves while the store answers, or just after, is
// cancelled, units and slots.
func TestAbandonedReservationIsCancelled(t *testing.T) {
	const text = "policies:\n  llm: {limits: [10000/24h name=tokens, 5 in-flight ttl=1h name=running]}\n"
	for name, trips := range map[string]int{"while the store answers": 1, "just after": 0} {
		synctest.Test(t, func(t *testing.T) {
			file, err := config.Parse("f", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			memory, err := memstore.New(memstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var leave context.CancelFunc
			late := &lateStore{Store: memory, trips: trips, answered: func(_ context.Context, op rule.Op) error {
				if op == rule.Take {
					leave()
				}
				<-time.After(5 * time.Millisecond) // in virtual time
				return nil
			}}
			g, err := New(file, late, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			for verb, op := range map[string]Op{"reserve": Reserve, "acquire": Acquire} {
				var ctx context.Context
				ctx, leave = context.WithCancel(t.Context())
				defer leave()
				r, v, err := g.Take(ctx, op, Request{Policy: "llm", Key: "ann", Cost: 2000})
				if r.ID != "" || v.Decision.Allowed || !errors.Is(err, context.Canceled) && !v.Ended {
					t.Errorf("%s, %s: got %+v, %+v, %v; want the context's error", name, verb, r, v, err)
				}
				<-time.After(time.Second) // in virtual time
				synctest.Wait()
				left, err := g.Do(t.Context(), Peek, Request{Policy: "llm", Key: "ann", Cost: 1})
				if err != nil || left.Decision.Answers[0].Remaining != 10_000 || left.Decision.Answers[1].Remaining != 5 {
					t.Errorf("%s, %s: got %+v left, %v; want 10000 units and 5 slots", name, verb, left.Decision.Answers, err)
				}
			}
		})
	}
}
