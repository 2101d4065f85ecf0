package lease_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
)

// Answers from leases are bounds, so the contract of stores, which requires exact ones, does not apply to them. It does
// apply to keys that have no lease: those of limits with Lease are decided exactly like others. No key has a lease
// after Close.

// allLeased uses limits with Lease instead of those that could have it.
type allLeased struct {
	*lease.Store
	twins sync.Map // from *store.Limit to the one with Lease
}

func newAllLeased(t testing.TB, inner store.Store) *allLeased {
	t.Helper()
	l := leased(t, inner)
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return &allLeased{Store: l}
}

func (a *allLeased) twin(limit *store.Limit) *store.Limit {
	if found, ok := a.twins.Load(limit); ok {
		return found.(*store.Limit)
	}
	r := *limit.Rule()
	if r.Lease = true; r.Algorithm == rule.DefaultAlgorithm { // which is in parts if it is leased, at every quota
		return limit
	}
	r, err := r.Normalize()
	if err != nil { // it cannot be leased
		return limit
	}
	found, _ := a.twins.LoadOrStore(limit, store.Bind(limit.Namespace(), limit.Name(), limit.Label(), r))
	return found.(*store.Limit)
}

func (a *allLeased) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	return a.Store.TakeSingle(ctx, a.twin(limit), key, cost)
}

func (a *allLeased) Apply(ctx context.Context, batch []store.Request) error {
	twins := slices.Clone(batch)
	for i := range twins {
		twins[i].Charges = slices.Clone(twins[i].Charges)
		for k := range twins[i].Charges {
			twins[i].Charges[k].Limit = a.twin(twins[i].Charges[k].Limit)
		}
	}
	err := a.Store.Apply(ctx, twins)
	for i := range twins {
		batch[i].Err = twins[i].Err
	}
	return err
}

// distant is a store in memory that stands in for one across a network.
type distant struct{ *memstore.Store }

// Traits returns those of a store with round trips.
func (d distant) Traits() store.Traits {
	traits := d.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

func TestContractInMemory(t *testing.T) {
	t.Parallel()
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newAllLeased(t, distant{kit.Must(memstore.New(memstore.Options{Now: clock.Now}))(t)})
	}, storetest.Options{Short: *leaseLength < time.Minute})
}

// The same over the stores of the servers, always in short mode: each check takes some hundred round trips.
func TestContract(t *testing.T) {
	overServers(t, func(t *testing.T, s server) {
		storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
			return newAllLeased(t, kit.Must(openStore(t, s.via(s.addr), clock.Now))(t))
		}, storetest.Options{Short: true})
	})
}
