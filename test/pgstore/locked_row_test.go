package pgstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
)

// While another transaction holds the row of one key, all requests for that key wait in one call, and requests for other
// keys are answered. When the row is free, those that waited are answered too.
func TestLockedRowBlocksNoOtherKey(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{}, "pool_max_conns=16")
	st := coalesce.New(newStore(t, pool, pgstore.Options{}), coalesce.Options{Timeout: time.Minute})
	limit := bind(t, "rows", slidegate.Limit{Quota: 1000, Window: time.Hour, Algorithm: slidegate.FixedWindow})
	take := func(key string) (left int64, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		batch := []store.Request{{Charges: []store.Charge{{Limit: limit, Key: key, Cost: 1}}, Answers: make([]rule.Answer, 1)}}
		err = st.Apply(ctx, batch)
		return batch[0].Answers[0].Remaining, err
	}
	if left, err := take("locked"); err != nil || left != 999 {
		t.Fatalf("got %d left, %v", left, err)
	}
	held := kit.Must(pool.Begin(t.Context()))(t)
	defer held.Rollback(context.Background())
	if got := kit.Must(held.Exec(t.Context(), "SELECT FROM slidegate_state WHERE address LIKE '%:locked' FOR UPDATE"))(t); got.RowsAffected() != 1 {
		t.Fatalf("locked %d rows, want 1", got.RowsAffected())
	}

	const waiters, callers, each = 24, 8, 50
	var waiting, others sync.WaitGroup
	lefts := make([]int64, waiters)
	for i := range waiters {
		waiting.Go(func() {
			var err error
			if lefts[i], err = take("locked"); err != nil {
				t.Errorf("the locked key: %v", err)
			}
		})
	}
	kit.Eventually(t, "a call waits for the row", func() bool { return lockWaits(t, pool) > 0 })
	took := make([][]time.Duration, callers)
	for i := range callers {
		others.Go(func() {
			for k := range each {
				began := time.Now()
				if _, err := take(fmt.Sprint("other-", i, "-", k%7)); err != nil {
					t.Errorf("another key, while one row is locked: %v", err)
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	others.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	if len(all) == callers*each {
		t.Logf("other keys: median %v, longest %v", all[len(all)/2], all[len(all)-1])
	}
	if calls := lockWaits(t, pool); calls != 1 {
		t.Errorf("%d calls wait for the row, want 1", calls)
	}
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	slices.Sort(lefts)
	for i, left := range lefts {
		if left != int64(999-waiters+i) {
			t.Fatalf("got %v left, want each number from %d to 998 once", lefts, 999-waiters)
		}
	}
}

// lockWaits returns how many sessions of the test's database wait for a lock.
func lockWaits(t testing.TB, pool *pgxpool.Pool) int64 {
	t.Helper()
	return queryNumber(t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
}
