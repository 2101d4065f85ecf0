package pgstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/race"
)

// settlement returns a request that settles a reservation.
func settlement(id rule.ID, charges ...store.Charge) store.Request {
	return store.Request{Op: rule.Settle, ID: id, Charges: charges, Answers: make([]rule.Answer, len(charges))}
}

// One reservation is settled many times concurrently, some for less and some for more than others. Exactly one
// settlement takes effect, at every isolation level, and all get the same answer, even if it returns nothing, so that
// no state changes.
func TestConcurrentSettlementsTakeEffectOnce(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		pool := database(t, pgstore.Options{}, "default_transaction_isolation="+level, "pool_max_conns=8")
		st := newStore(t, pool, pgstore.Options{})
		limits := []*store.Limit{
			bindRule(t, "", "window", rule.Limit{Algorithm: rule.SlidingWindow, Quota: 1000, Window: 3600e6, Anchor: rule.AnchorFirst}),
			bindRule(t, "", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 1000, Window: 3600e6}),
		}
		for round := range 6 {
			charges := []store.Charge{{Limit: limits[0], Key: fmt.Sprint(round), Cost: 10}, {Limit: limits[1], Key: "all", Cost: 10}}
			taken := store.Request{ID: 1, Charges: charges, Answers: make([]rule.Answer, 2)}
			noError(t, st.Apply(t.Context(), []store.Request{taken}))
			for i := range charges {
				charges[i].At = taken.Answers[i].At
			}
			before := remaining(t, st, store.Charge{Limit: limits[1], Key: "all"})
			firsts, backs := settleAtOnce(t, st, rule.ID(round+1), charges, round, level != "read committed")
			if firsts != 1 || len(slices.Compact(backs)) != 1 {
				t.Errorf("%s, round %d: got %d first settlements, which returned %v", level, round, firsts, backs)
			}
			for _, c := range []struct {
				charge store.Charge
				want   int64
			}{{charges[0], 1000 - 10 + backs[0]}, {charges[1], before + backs[0]}} {
				c.charge.Cost = 0
				if left := remaining(t, st, c.charge); left != c.want {
					t.Errorf("%s, round %d, %s: got %d remaining, want %d", level, round, c.charge.Limit.Name(), left, c.want)
				}
			}
		}
	}
}

// A settlement that cannot see another one, because its snapshot is older, fails instead of taking effect again, even
// if the other one changed no count and was in the previous generation.
func TestSettleWithOldSnapshot(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	now := rule.Micros(1_767_000_000e6 + 59e6)
	opts := pgstore.Options{Now: func() rule.Micros { return now }}
	charge := store.Charge{Limit: bindRule(t, "", "window", rule.Limit{Algorithm: rule.FixedWindow, Quota: 5, Window: 60e6}), Cost: 3}
	charge.At = apply(t, newStore(t, pool, opts), rule.Take, charge).At
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	noError(t, err)
	defer tx.Rollback(context.Background()) //nolint:errcheck // it has failed
	_, err = tx.Exec(t.Context(), "SELECT count(*) FROM slidegate_state")
	noError(t, err)
	same := charge
	same.Used = same.Cost
	noError(t, newStore(t, pool, opts).Apply(t.Context(), []store.Request{settlement(1, same)}))
	now += 2e6
	late, err := pgstore.New(tx, opts)
	noError(t, err)
	r := settlement(1, charge)
	if err := late.Apply(t.Context(), []store.Request{r}); err == nil {
		t.Errorf("the second settlement did not see the first: got %+v", r.Answers[0])
	}
}

// settleAtOnce settles a reservation many times concurrently, and returns how many settlements took effect, and the answer of
// each. In every third round nothing is refunded. If again is true, settlements that conflicted too often are retried.
func settleAtOnce(t *testing.T, st store.Store, id rule.ID, charges []store.Charge, round int, again bool) (firsts int, backs []int64) {
	t.Helper()
	var mu sync.Mutex
	_, err := race.Concurrently(8, func(i int) (int64, error) {
		own := slices.Clone(charges)
		for j := range own {
			own[j].Used = int64(i)
			if round%3 == 0 {
				own[j].Used = own[j].Cost
			}
		}
		request := settlement(id, own...)
		err := st.Apply(context.Background(), []store.Request{request})
		for again && codeOf(err) == "40001" {
			err = st.Apply(context.Background(), []store.Request{request})
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil && request.Answers[0].Flags&rule.Repeated == 0 {
			firsts++
		}
		backs = append(backs, request.Answers[0].Granted)
		return 0, err
	})
	noError(t, err)
	return firsts, backs
}

// What is remembered is bounded per key and generation. Beyond the bound nothing is returned, but slots are released;
// other keys are not affected. Expire deletes it, and Reset does not.
func TestSettlementsAreBounded(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	now := rule.Micros(1_767_000_000e6)
	st := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }, Grace: time.Microsecond})
	limit := bindRule(t, "", "window", rule.Limit{Algorithm: rule.FixedWindow, Quota: 5, Window: 60e6})
	slots := bindRule(t, "", "slots", rule.Limit{Algorithm: rule.InFlight, Quota: 2, Window: 60e6})
	charge, slot := store.Charge{Limit: limit, Key: "key", Cost: 3, At: now}, store.Charge{Limit: slots, Key: "key", Cost: 1, At: now}
	most := limit.Rule().Settlements()
	const made = 10
	batch := make([]store.Request, made)
	for i := range batch {
		batch[i] = settlement(rule.ID(i+1), charge)
	}
	noError(t, st.Apply(t.Context(), batch))
	counted, err := pool.Exec(t.Context(), "UPDATE slidegate_state SET current = $1 WHERE address LIKE '\\%settled:%' AND current = $2", most, made)
	if err != nil || counted.RowsAffected() != 1 { // as if the table held the others too
		t.Fatalf("got %d rows with %d settlements, %v", counted.RowsAffected(), made, err)
	}
	last := rule.ID(most + 1)
	apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "key", Cost: 3})
	noError(t, st.Apply(t.Context(), []store.Request{{ID: last, Charges: []store.Charge{slot}, Answers: make([]rule.Answer, 1)}}))
	check := func(what string, r store.Request, flags rule.Flags, granted int64) {
		t.Helper()
		noError(t, st.Apply(t.Context(), []store.Request{r}))
		if a := r.Answers[0]; a.Flags != flags || a.Granted != granted {
			t.Errorf("%s: got flags %v and %d returned, want %v and %d", what, a.Flags, a.Granted, flags, granted)
		}
	}
	full := settlement(last, charge, slot)
	check("one too many", full, rule.Unsettled, 0)
	if a := full.Answers[1]; a.Granted != 1 || a.Flags != 0 || a.Remaining != 2 {
		t.Errorf("the slot of one too many: got %+v, want it released", a)
	}
	apply(t, st, rule.Reset, store.Charge{Limit: limit, Key: "key"})
	apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "key", Cost: 3})
	check("one of those remembered, after a reset", settlement(7, charge), rule.Repeated, 0)
	other := charge
	other.Key = "other"
	check("another key", settlement(last, other), 0, 0)
	countRows := func(what string, want int64) {
		t.Helper()
		got := queryNumber(t, pool, "SELECT count(*) FROM slidegate_state WHERE address LIKE '\\%settled:%'")
		if got != want {
			t.Errorf("%s: got %d rows, want %d", what, got, want)
		}
	}
	now += limit.Rule().Memory()
	apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "key", Cost: 3})
	charge.At = now
	check("the next generation", settlement(last, charge), 0, 3)
	check("one of the generation before", settlement(7, charge), rule.Repeated, 0)
	countRows("settlements and the generations of two keys", made+1+1+2)
	now += rule.LongMemory - 1 // there is space
	check("another one", settlement(last+1, charge), 0, 0)
	check("one of the first generation", settlement(7, charge), rule.Repeated, 0)
	now++
	check("the third generation", settlement(last+2, charge), 0, 0)
	check("one of the generation before", settlement(last, charge), rule.Repeated, 3)
	check("one of the first generation, which was dropped", settlement(7, charge), 0, 0)
	countRows("four of the first generation were deleted, three others are new", made+1+1+2-4+3)
	if _, err := pool.Exec(t.Context(), "UPDATE slidegate_state SET current = $1 WHERE address LIKE '\\%settled:%::key'", most); err != nil {
		t.Fatal(err)
	}
	now -= limit.Rule().Memory() + 1 // the clock had jumped ahead
	charge.At = now
	check("a generation that begins before the full one ends", settlement(last+3, charge), 0, 0)
	check("one of the full one", settlement(last+2, charge), rule.Repeated, 0)
	now += limit.Rule().Memory() + rule.LongMemory + 3
	if _, err := st.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := queryNumber(t, pool, "SELECT count(*) FROM slidegate_state"); rows != 0 {
		t.Errorf("got %d rows left after the memory has passed", rows)
	}
}

// The clock is set back between a charge and its settlement. The settlement is remembered as long as the units count.
func TestSettledBeforeTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	for i, l := range []rule.Limit{
		{Algorithm: rule.SlidingWindow, Quota: 20, Window: 60e6, Segments: 6},
		{Algorithm: rule.FixedWindow, Quota: 20, Window: 60e6},
		{Algorithm: rule.SlidingLog, Quota: 20, Window: 60e6},
		{Algorithm: rule.TokenBucket, Quota: 7, Burst: 20, Window: 60e6},
	} {
		now := rule.Micros(1_767_000_000e6)
		st := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }, Grace: time.Microsecond})
		charge := store.Charge{Limit: bindRule(t, "back", fmt.Sprint(i), l), Key: "key", Cost: 5, Used: 4}
		charge.At = apply(t, st, rule.Take, charge).At
		now -= l.Window / 2
		noError(t, st.Apply(t.Context(), []store.Request{settlement(1, charge)}))
		for charge.Used = 0; now < charge.At+l.Window; now += l.Window / 10 {
			r := settlement(1, charge)
			noError(t, st.Apply(t.Context(), []store.Request{r}))
			if a := r.Answers[0]; a.Flags&rule.Repeated == 0 || a.Granted != 1 {
				t.Errorf("%v, %v after the charge: got %+v, want Repeated, Granted 1", l.Algorithm, (now - charge.At).Duration(), a)
			}
			if _, err := st.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// The time of the settlement is that of the key, by which its generation, as if it were full, ends.
		if _, err := pool.Exec(t.Context(), "UPDATE slidegate_state SET current = 1000000 WHERE address LIKE '\\%settled:%::key'"); err != nil {
			t.Fatal(err)
		}
		memory := charge.Limit.Rule().Memory()
		for i, want := range []rule.Flags{rule.Unsettled, 0} {
			after := memory - 1 + rule.Micros(i)
			now = charge.At + after
			r := settlement(rule.ID(2+after), charge)
			noError(t, st.Apply(t.Context(), []store.Request{r}))
			if a := r.Answers[0]; a.Flags != want {
				t.Errorf("%v, %v after the charge: got %+v, want the flags %v", l.Algorithm, after.Duration(), a, want)
			}
		}
	}
}

// Every settlement is one call, even the first of a key, and a repeated one writes nothing.
func TestSettleRoundTrips(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	conn := &countingDB{Pool: pool}
	st, err := pgstore.New(conn, pgstore.Options{})
	noError(t, err)
	charge := store.Charge{Limit: bindRule(t, "", "log", rule.Limit{Quota: 5, Window: 60e6}), Key: "key", Cost: 3, Used: 1}
	charge.At = apply(t, st, rule.Take, charge).At
	for i := range 3 {
		calls, version := conn.calls, queryText(t, pool, "SELECT string_agg(version::text, ' ' ORDER BY address) FROM slidegate_state")
		r := settlement(1, charge)
		noError(t, st.Apply(t.Context(), []store.Request{r}))
		if conn.calls != calls+1 || r.Answers[0].Granted != 2 || (r.Answers[0].Flags&rule.Repeated != 0) != (i > 0) {
			t.Errorf("settled %d times: took %d calls and got %+v", i+1, conn.calls-calls, r.Answers[0])
		}
		if after := queryText(t, pool, "SELECT string_agg(version::text, ' ' ORDER BY address) FROM slidegate_state"); (after != version) != (i == 0) {
			t.Errorf("the versions of the rows were %s and are %s after %d settlements", version, after, i+1)
		}
	}
}

// A call and its settlement are one of those that an address remembers, and one that is to be remembered for longer than others is.
func TestCallsAndLongHoldsAreRemembered(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	now := rule.Micros(1_767_000_000e6)
	st := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }})
	short := bindRule(t, "", "window", rule.Limit{Algorithm: rule.FixedWindow, Quota: 5, Window: 60e6})
	long := bindRule(t, "", "window", rule.Limit{Algorithm: rule.FixedWindow, Quota: 5, Window: 60e6, Hold: 7200e6})
	call := store.Request{ID: 1, Hold: true, Once: true, Charges: []store.Charge{{Limit: long, Key: "key", Cost: 2}}, Answers: make([]rule.Answer, 1)}
	noError(t, st.Apply(t.Context(), []store.Request{call}))
	settle := settlement(1, store.Charge{Limit: long, Key: "key", Used: 1})
	settle.Once = true
	noError(t, st.Apply(t.Context(), []store.Request{settle}))
	if a := settle.Answers[0]; a.Granted != 1 || a.Flags != 0 || a.Remaining != 4 {
		t.Errorf("settled: got %+v, want 1 of 2 returned and 4 of 5 left", a)
	}
	if n := queryNumber(t, pool, "SELECT current FROM slidegate_state WHERE address LIKE '\\%settled:%::key' AND start IS NOT NULL"); n != 1 {
		t.Errorf("got %d remembered, want the call and its settlement to be one", n)
	}
	for id := rule.ID(2); now < 1_767_000_000e6+7261e6; id++ { // a window, a part of it, and the hold
		now += rule.LongMemory
		noError(t, st.Apply(t.Context(), []store.Request{settlement(id, store.Charge{Limit: short, Key: "key", Cost: 1})}))
		noError(t, st.Apply(t.Context(), []store.Request{settle}))
		if known := settle.Answers[0].Flags == rule.Repeated; !known && now < 1_767_000_000e6+7261e6 {
			t.Errorf("%v later: got %+v, want it repeated", (now - 1_767_000_000e6).Duration(), settle.Answers[0])
		}
	}
}
