package pgstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// heldLimits are limits of every format of state, with hold and without. Those of one name share their state.
func heldLimits(t testing.TB, quota int64) (held, plain []*store.Limit) {
	t.Helper()
	for i, l := range []rule.Limit{
		{Algorithm: rule.SlidingWindow, Quota: quota, Window: 3600e6},
		{Algorithm: rule.FixedWindow, Quota: quota, Window: 3600e6},
		{Algorithm: rule.SlidingWindow, Quota: quota, Window: 3600e6, Segments: 6, Overlap: rule.OverlapWhole},
		{Algorithm: rule.SlidingLog, Quota: quota, Window: 3600e6},
		{Algorithm: rule.TokenBucket, Quota: quota, Window: 3600e6},
		{Quota: quota, Window: 3600e6},
	} {
		name := fmt.Sprint("held", i)
		plain = append(plain, bindRule(t, "", name, l))
		l.Hold = 600e6
		held = append(held, bindRule(t, "", name, l))
	}
	return held, plain
}

// Takes of keys of which something is held are one call, together with others, and a refusal takes no lock.
func TestTakesOfHeldKeysAreOneCall(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	conn := &countingDB{Pool: pool}
	now := rule.Micros(1_767_000_000e6)
	st, err := pgstore.New(conn, pgstore.Options{Now: func() rule.Micros { return now }})
	noError(t, err)
	held, plain := heldLimits(t, 10)
	for i, limit := range held {
		r := store.Request{ID: 7, Hold: true, Charges: []store.Charge{{Limit: limit, Key: "key", Cost: 4}}, Answers: make([]rule.Answer, 1)}
		noError(t, st.Apply(t.Context(), []store.Request{r}))
		apply(t, st, rule.Take, store.Charge{Limit: plain[i], Key: "other", Cost: 5})
	}
	take := func(what string, cost int64, limits []*store.Limit, check func(a rule.Answer) bool) {
		t.Helper()
		var batch []store.Request
		for _, limit := range limits {
			for _, key := range []string{"key", "other"} {
				batch = append(batch, store.Request{Charges: []store.Charge{{Limit: limit, Key: key, Cost: cost}}, Answers: make([]rule.Answer, 1)})
			}
		}
		calls := conn.calls
		noError(t, st.Apply(t.Context(), batch))
		if conn.calls != calls+1 {
			t.Errorf("%s: took %d calls, want 1", what, conn.calls-calls)
		}
		for i := 0; i < len(batch); i += 2 {
			if a := batch[i].Answers[0]; !check(a) {
				t.Errorf("%s, %s: got %+v", what, batch[i].Charges[0].Limit.Name(), a)
			}
		}
	}
	refused := func(a rule.Answer) bool {
		return !a.Allowed && a.Flags == rule.Held && a.Remaining == 6 && a.RetryAfter == 600e6
	}
	admitted := func(a rule.Answer) bool { return a.Allowed && a.Flags == 0 && a.Remaining == 4 }
	for _, some := range [][]*store.Limit{plain[:2], plain} { // take_many, take_any_many
		const locks = "SELECT string_agg(xmin || ' ' || xmax, ', ' ORDER BY address) FROM slidegate_state"
		before := queryText(t, pool, locks)
		take("refused", 7, some, refused)
		if after := queryText(t, pool, locks); after != before {
			t.Errorf("a refusal took a lock: the transactions of the rows were %s and are %s", before, after)
		}
	}
	take("admitted", 2, plain, admitted)
	for i := range plain {
		noError(t, st.Apply(t.Context(), []store.Request{settlement(7, store.Charge{Limit: held[i], Key: "key", Cost: 4})}))
	}
	take("after the holds were cancelled", 8, plain, func(a rule.Answer) bool { return a.Allowed && a.Remaining == 0 })
}

// Reservations and takes of the same keys at the same time lose no unit and count none twice, and wait for each other in one order.
func TestContendedHolds(t *testing.T) {
	t.Parallel()
	const quota, now, callers, rounds = 1000, rule.Micros(1_767_000_000e6), 8, 30
	pool := database(t, pgstore.Options{}, "pool_max_conns=8")
	st := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }})
	held, plain := heldLimits(t, quota)
	last := bindRule(t, "", "last", rule.Limit{Algorithm: rule.SlidingLog, Quota: quota, Window: 3600e6}) // of which nothing is held
	plain = append(plain, last)
	var mu sync.Mutex
	used := make([]int64, len(plain))
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for round := range rounds {
				id := rule.ID(1 + i*rounds + round)
				reserve := store.Request{ID: id, Hold: true, Answers: make([]rule.Answer, len(plain))}
				settle := store.Request{Op: rule.Settle, ID: id, Answers: make([]rule.Answer, len(held))}
				var takes []store.Request
				for j := range plain {
					if j == len(held) {
						reserve.Charges = append(reserve.Charges, store.Charge{Limit: last, Key: "key", Cost: 1})
						takes = append(takes, store.Request{Charges: []store.Charge{{Limit: last, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1)})
						continue
					}
					reserve.Charges = append(reserve.Charges, store.Charge{Limit: held[j], Key: "key", Cost: 3})
					settle.Charges = append(settle.Charges, store.Charge{Limit: held[j], Key: "key", Cost: 3, Used: 1, At: now})
					takes = append(takes, store.Request{Charges: []store.Charge{{Limit: plain[j], Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1)})
				}
				for _, batch := range [][]store.Request{{reserve}, takes, takes[:2], {settle}} {
					if err := st.Apply(t.Context(), batch); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for k := range batch {
						for j, a := range batch[k].Answers {
							switch {
							case batch[k].Op == rule.Settle || j == len(held):
								used[j]++
							case len(batch[k].Answers) == 1:
								used[k] += a.Granted
							case !a.Allowed:
								t.Errorf("a reservation was refused: %+v", a)
							}
						}
					}
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for j, limit := range plain {
		if left := remaining(t, st, store.Charge{Limit: limit, Key: "key"}); left != quota-used[j] {
			t.Errorf("%s: got %d remaining after %d were used", limit.Name(), left, used[j])
		}
	}
	if n := queryNumber(t, pool, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n > 0 {
		t.Errorf("got %d deadlocks", n)
	}
}
