package slidegate_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// noon is where clocks begin, on 1 January 2026: an edge of every window up to twelve hours, so that expected times are
// round numbers.
const noon = rule.Micros(1_767_268_800_000_000)

// overStores runs a test over the reference store, which is the rule alone, and over memstore.
func overStores(t *testing.T, test func(t *testing.T, store store.Store, clock *storetest.Clock)) {
	t.Run("reference", func(t *testing.T) {
		clock := storetest.NewClock(noon)
		test(t, storetest.NewReference(clock), clock)
	})
	t.Run("memory", func(t *testing.T) {
		clock := storetest.NewClock(noon)
		test(t, newMemory(t, clock), clock)
	})
}

func newReference() store.Store { return storetest.NewReference(storetest.NewClock(noon)) }

func newMemory(t testing.TB, clock *storetest.Clock) store.Store {
	t.Helper()
	return testkit.Must(memstore.New(memstore.Options{Now: clock.Now}))(t)
}

func newLimiter(t testing.TB, store store.Store, limits ...slidegate.Limit) *slidegate.Limiter {
	t.Helper()
	return testkit.Must(slidegate.New(store, limits...))(t)
}

// newPerCall returns a limiter for limits given per call.
func newPerCall(t testing.TB, store store.Store) *slidegate.Limiter {
	t.Helper()
	return testkit.Must(slidegate.New(store))(t)
}

func allow(t testing.TB, limiter *slidegate.Limiter, key string, n int64) slidegate.Decision {
	t.Helper()
	d, err := limiter.AllowN(t.Context(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// used returns how much of the quota a key has used, under a limiter of one limit.
func used(t testing.TB, limiter *slidegate.Limiter, key string) int64 {
	t.Helper()
	d, err := limiter.Peek(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Quota - d.Remaining
}

// exact returns a limit whose units count for exactly the window, which makes expected times easy to see.
func exact(name string, quota int64, window time.Duration) slidegate.Limit {
	return slidegate.Limit{Name: name, Quota: quota, Window: window, Algorithm: slidegate.SlidingLog}
}

// batchOnly hides that a store is a SingleTaker.
type batchOnly struct{ store.Store }

// singleCharge is a store that is not atomic over several keys.
type singleCharge struct{ store.Store }

func (singleCharge) Traits() store.Traits { return store.Traits{Name: "singleCharge", MaxCharges: 1} }

// oneKeyStore is a store that decides one key at a time, or one group.
type oneKeyStore struct{ store.Store }

func (oneKeyStore) Traits() store.Traits {
	return store.Traits{Name: "entries", MaxCharges: 8, OneKey: true}
}

// noBuckets is a store that does not support token buckets.
type noBuckets struct{ store.Store }

func (noBuckets) Check(limit *store.Limit) error {
	if limit.Rule().Algorithm == slidegate.TokenBucket {
		return fmt.Errorf("noBuckets: %w: algorithm: token-bucket", store.ErrUnsupported)
	}
	return nil
}

// brokenStore is a store that fails, and leaves garbage where its answers would be.
type brokenStore struct {
	store.Store
	err error
}

func (b brokenStore) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch {
		batch[i].Err = b.err
		for j := range batch[i].Answers {
			batch[i].Answers[j] = rule.Answer{Allowed: true, Granted: 1, Remaining: 7, At: noon}
		}
	}
	return b.err
}

func (b brokenStore) TakeSingle(context.Context, *store.Limit, string, int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	return true, 0, 7, 0, 0, noon, b.err
}

// recorder is a store that records the requests it receives in batches.
type recorder struct {
	store.Store

	mu   sync.Mutex
	sent []store.Request // with copies of their charges
}

func (r *recorder) Apply(ctx context.Context, batch []store.Request) error {
	r.mu.Lock()
	for _, request := range batch {
		request.Charges = slices.Clone(request.Charges)
		r.sent = append(r.sent, request)
	}
	r.mu.Unlock()
	return r.Store.Apply(ctx, batch)
}

// take returns the requests since the last call.
func (r *recorder) take() []store.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}
