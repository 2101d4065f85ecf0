package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/porttest"
)

// After every operation a row has the exact end of its state, and Expire deletes it after the grace period and not before.
func TestExpiry(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }, Grace: 7 * time.Microsecond})
	for _, limit := range porttest.Kinds() {
		bound := bind(t, "expiry", limit)
		var state rule.State
		for _, step := range []struct {
			op   rule.Op
			cost int64
		}{
			{rule.Take, 3}, {rule.TakeUpTo, 2}, {rule.Take, 1}, {rule.GiveBack, 4},
			{rule.Charge, limit.Quota + 5}, // overdrawn: a bucket then needs longer than a window
			{rule.GiveBack, 2},
		} {
			now += 123_457
			apply(t, s, step.op, store.Charge{Limit: bound, Key: "key", Cost: step.cost})
			rule.Decide(step.op, []rule.Item{{Limit: bound.Rule(), State: &state, Cost: step.cost}}, now, make([]rule.Answer, 1))
			end := bound.Rule().Expires(&state)
			if until := queryNumber(t, pool, "SELECT expires FROM slidegate_state"); rule.Micros(until) != end {
				t.Errorf("%s, after %+v: the state matters until %d, the row until %d", limit.Name, step, end, until)
			}
		}
		before := now
		for _, c := range []struct {
			now     rule.Micros
			deleted int64
		}{{before, 0}, {bound.Rule().Expires(&state) + 7, 0}, {bound.Rule().Expires(&state) + 8, 1}} {
			now = c.now
			if deleted, err := s.Expire(t.Context()); deleted != c.deleted || err != nil {
				t.Errorf("%s: at %d: got %d rows deleted, %v, want %d", limit.Name, now, deleted, err, c.deleted)
			}
		}
	}
}

// A reset leaves a row that can be deleted immediately, and the key has its whole quota.
func TestResetExpires(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{})
	for _, limit := range porttest.Kinds() {
		charge := store.Charge{Limit: bind(t, "reset", limit), Key: "key", Cost: 2}
		apply(t, s, rule.Take, charge)
		apply(t, s, rule.Reset, charge)
		if deleted, err := s.Expire(t.Context()); deleted != 1 || err != nil {
			t.Errorf("%s: got %d rows deleted after a reset, %v, want 1", limit.Name, deleted, err)
		}
	}
}

// Expire goes through tables of more than one step, leaves live rows and locked rows, and concurrent calls delete each
// row once.
func TestExpireMany(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{})
	_, err := pool.Exec(t.Context(), `INSERT INTO slidegate_state
		SELECT 0, CASE i % 5 WHEN 0 THEN 4102444800000000 ELSE i END, 0, 1, 0, 'dead:' || i FROM generate_series(1, 12500) i`)
	if err != nil {
		t.Fatal(err)
	}
	held, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec(t.Context(), "SELECT FROM slidegate_state WHERE address IN ('dead:1', 'dead:2') FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var total int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // in case it waits
	defer cancel()
	for range 4 {
		all.Go(func() {
			deleted, err := s.Expire(ctx)
			mu.Lock()
			defer mu.Unlock()
			if total += deleted; err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if left := queryNumber(t, pool, "SELECT count(*) FROM slidegate_state"); total != 10_000-2 || left != 2_500+2 {
		t.Errorf("got %d rows deleted, %d left", total, left)
	}
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if deleted, err := s.Expire(t.Context()); deleted != 2 || err != nil {
		t.Errorf("got %d rows deleted that are no longer locked, %v", deleted, err)
	}
}

// Sweep runs until its context ends, even after errors, and deletes everything in the end.
func TestSweep(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended, failures := make(chan error, 1), make(chan error, 1_000)
	if _, err := pool.Exec(ctx, "ALTER TABLE slidegate_state RENAME TO elsewhere"); err != nil {
		t.Fatal(err)
	}
	go func() {
		ended <- s.Sweep(ctx, time.Millisecond, func(err error) {
			select {
			case failures <- err:
			default:
			}
		})
	}()
	if err := <-failures; codeOf(err) != "42P01" {
		t.Errorf("got failure %v", err)
	}
	_, err := pool.Exec(ctx, `ALTER TABLE elsewhere RENAME TO slidegate_state;
		INSERT INTO slidegate_state SELECT 0, i, 0, 1, 0, 'dead:' || i FROM generate_series(1, 20000) i;
		INSERT INTO slidegate_state SELECT 0, 4102444800000000, 0, 1, 0, 'live:' || i FROM generate_series(1, 5000) i`)
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, "all to be swept", func() bool { return queryNumber(t, pool, "SELECT count(*) FROM slidegate_state") == 5_000 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Sweep: got %v, want context.Canceled", err)
	}
}

// A key whose row is deleted while it is being charged keeps every unit.
func TestExpireLosesNoConcurrentCharge(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{Grace: time.Microsecond})
	limit := bind(t, "", slidegate.Limit{Quota: 1 << 40, Window: time.Millisecond, Anchor: slidegate.AnchorFirst}) // expired most of the time
	ctx, cancel := context.WithCancel(t.Context())
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.Expire(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	var takers sync.WaitGroup
	for caller := range 4 {
		takers.Go(func() {
			for i := range 100 {
				batch := make([]store.Request, 1+i%3)
				for j := range batch {
					batch[j] = store.Request{
						Charges: []store.Charge{{Limit: limit, Key: fmt.Sprint((caller + j) % 4), Cost: 1}}, Answers: make([]rule.Answer, 1),
					}
				}
				if err := s.Apply(context.Background(), batch); err != nil {
					t.Error(err)
				}
				for j := range batch {
					if !batch[j].Answers[0].Allowed || batch[j].Answers[0].Remaining >= 1<<40 {
						t.Errorf("got answer %+v", batch[j].Answers[0])
					}
				}
			}
		})
	}
	takers.Wait()
	cancel()
	sweeping.Wait()
}
