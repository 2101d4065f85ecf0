package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/porttest"
)

// Every decision is made by the server's clock, to the microsecond.
func TestServerClockDecides(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{})
	for _, limit := range porttest.Kinds() {
		for _, op := range []rule.Op{rule.Take, rule.Peek} {
			for i := range 5 {
				charge := store.Charge{Limit: bind(t, "clock", limit), Key: fmt.Sprint("key-", op, i), Cost: 1}
				before := serverTime(t, pool)
				a := apply(t, s, op, charge)
				if after := serverTime(t, pool); a.At < before || a.At > after {
					t.Errorf("%s: decided at %d, requested between %d and %d", limit.Name, a.At, before, after)
				}
			}
		}
	}
}

// Requests that charge nothing write nothing at all, not even a transaction id, which would have to be flushed.
func TestRefusalsWriteNothing(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "autovacuum = off") // a separate server, since the test counts transactions
	pool := server.Pool(t)
	if err := pgstore.Migrate(t.Context(), pool, pgstore.Options{}); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, pool, pgstore.Options{})
	for _, limit := range porttest.Kinds() {
		bound := bind(t, "refusals", limit)
		full, fresh := store.Charge{Limit: bound, Key: "full"}, store.Charge{Limit: bound, Key: "fresh"}
		full.Cost = bound.Rule().Capacity()
		apply(t, s, rule.Take, full)
		before := nextXID(t, pool)
		for _, cost := range []int64{0, 1, full.Cost, full.Cost + 1, rule.MaxQuota} {
			full.Cost, fresh.Cost = cost, cost
			for _, op := range []rule.Op{rule.Take, rule.TakeUpTo, rule.Peek} {
				if a := apply(t, s, op, full); a.Granted != 0 || cost > 0 && a.Allowed {
					t.Fatalf("%s: a full key admits %d: %+v", limit.Name, cost, a)
				}
			}
			apply(t, s, rule.Peek, fresh)
			apply(t, s, rule.GiveBack, fresh)
			apply(t, s, rule.Reset, fresh)
		}
		full.Cost, fresh.Cost = 1, bound.Rule().Capacity()+1
		request := func(charges ...store.Charge) store.Request {
			return store.Request{Charges: charges, Answers: make([]rule.Answer, len(charges))}
		}
		for _, batch := range [][]store.Request{{request(full, fresh)}, {request(full), request(fresh)}} {
			if err := s.Apply(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		if after := nextXID(t, pool); after != before {
			t.Errorf("%s: requests that charge nothing began transactions %s to %s", limit.Name, before, after)
		}
		if n := queryNumber(t, pool, "SELECT count(*) FROM slidegate_state WHERE address LIKE '%:fresh'"); n != 0 {
			t.Errorf("%s: a refusal left a row behind", limit.Name)
		}
	}
}

// A row of the most common limit is small, its address is readable, and its updates touch no index.
func TestLayout(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{})
	limit := bind(t, "api", slidegate.Limit{Name: "login", Quota: 1 << 40, Window: time.Minute, Algorithm: slidegate.SlidingWindow})
	charge := store.Charge{Limit: limit, Key: "user 42", Cost: 3}
	for range 200 {
		apply(t, s, rule.Take, charge)
	}
	if a := queryText(t, pool, "SELECT address FROM slidegate_state"); a != "api:login:sliding-window-60000000-1-clock::user%2042" {
		t.Errorf("got row address %s", a)
	}
	// 24 bytes of header, 5 numbers, and the address of 52 bytes with its length in 1.
	if n := queryNumber(t, pool, "SELECT pg_column_size(s.*) FROM slidegate_state s"); n != 24+5*8+1+52 {
		t.Errorf("got %d bytes per row", n)
	}
	hot, all := int64(0), int64(0)
	kit.Eventually(t, "the server to have counted 199 updates", func() bool {
		pool.Reset()                // a connection reports its statistics when it ends
		counted := bloatOf(t, pool) // in one query: the counts may change meanwhile
		hot, all = counted.hot, counted.updates
		return all >= 199
	})
	if all != 199 || hot < 190 { // a snapshot of the server's own processes can keep old rows for a moment
		t.Errorf("got %d updates, of which %d touched no index, want 199 and at least 190", all, hot)
	}
	if n := queryNumber(t, pool, "SELECT pg_relation_size('slidegate_state')"); n > 4*8192 {
		t.Errorf("one row, charged 200 times: got %d bytes, want at most 4 pages", n)
	}
}

// A row on a full page still finds space there when it changes.
func TestFullPagesHaveSpaceForUpdates(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{})
	limit := bind(t, "api", slidegate.Limit{Name: "login", Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingWindow})
	batch := make([]store.Request, 400)
	for range 2 {
		for i := range batch {
			charges := []store.Charge{{Limit: limit, Key: fmt.Sprint("user ", i), Cost: 1}}
			batch[i] = store.Request{Charges: charges, Answers: make([]rule.Answer, 1)}
		}
		if err := s.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	kit.Eventually(t, "the server to have counted 400 updates", func() bool {
		pool.Reset() // a connection reports its statistics when it ends
		return queryNumber(t, pool, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'slidegate_state'") >= 400
	})
	hot := queryNumber(t, pool, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'slidegate_state'")
	if hot < 390 {
		t.Errorf("got %d of 400 updates that touched no index, want at least 390", hot)
	}
}

// A log never holds more than the quota of units, however many requests come.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{})
	limit := bind(t, "", slidegate.Limit{Quota: 5, Window: time.Hour, Algorithm: slidegate.SlidingLog, CountRefused: true})
	for i := range int64(12) {
		apply(t, s, rule.Take, store.Charge{Limit: limit, Cost: 1})
		if n := queryNumber(t, pool, "SELECT cardinality(more) FROM slidegate_state"); n != min(i+1, 5) {
			t.Errorf("after %d requests: got %d units in the log, want %d", i+1, n, min(i+1, 5))
		}
	}
	apply(t, s, rule.Charge, store.Charge{Limit: limit, Cost: 100})
	if n := queryNumber(t, pool, "SELECT cardinality(more) FROM slidegate_state"); n != 5 {
		t.Errorf("after a charge of more than the quota: got %d units in the log, want 5", n)
	}
}

// Whatever the isolation level of a role, no unit is granted twice, and no caller gets an error because of it unless
// conflicts persist.
func TestIsolationLevels(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		for _, limits := range [][]slidegate.Limit{porttest.Kinds()[:1], porttest.Kinds()[3:4], porttest.Kinds()} {
			pool := database(t, pgstore.Options{}, "default_transaction_isolation="+level)
			s := newStore(t, pool, pgstore.Options{})
			var charges []store.Charge
			for _, limit := range limits {
				limit.Quota = 30
				if limit.Burst > 0 {
					limit.Burst = 30
				}
				charges = append(charges, store.Charge{Limit: bind(t, "", limit), Cost: 1})
			}
			var mu sync.Mutex
			granted, failed := 0, 0
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 12 {
						request := store.Request{Charges: charges, Answers: make([]rule.Answer, len(charges))}
						err := s.Apply(context.Background(), []store.Request{request})
						mu.Lock()
						if err != nil {
							failed++
							if code := codeOf(err); level == "read committed" || code != "40001" || // a serialization failure
								!strings.Contains(err.Error(), "read committed") {
								t.Errorf("at %s: got error %v, want only serialization failures above read committed, and a hint at it", level, err)
							}
						} else if _, allowed := answering.Deciding(request.Answers); allowed {
							granted++
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
			if granted > 30 || granted+failed < 30 {
				t.Errorf("%s, %d limits: got %d of 30 units granted, and %d calls failed", level, len(limits), granted, failed)
			}
		}
	}
}

// Callers that request several keys together, in all orders, never deadlock, and every unit is counted once, by each of
// the paths.
func TestManyKeysNeverDeadlock(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{}, "deadlock_timeout=200ms")
	s := newStore(t, pool, pgstore.Options{})
	limits := []*store.Limit{
		bind(t, "", slidegate.Limit{Name: "a", Quota: 1 << 40, Window: time.Hour}),
		bind(t, "", slidegate.Limit{Name: "b", Quota: 1 << 40, Window: time.Hour, Segments: 2}),
	}
	const callers, rounds, keys = 6, 15, 6
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for round := range rounds {
				var batch []store.Request
				for i := range keys {
					key := fmt.Sprint((i + round) % keys)
					if caller%2 == 1 {
						key = fmt.Sprint((keys - i + round) % keys)
					}
					charges := []store.Charge{{Limit: limits[0], Key: key, Cost: 1}}
					switch (caller + round) % 3 {
					case 1:
						charges[0].Limit = limits[1]
					case 2:
						charges = append(charges, store.Charge{Limit: limits[1], Key: key, Cost: 1})
					}
					batch = append(batch, store.Request{Charges: charges, Answers: make([]rule.Answer, len(charges))})
				}
				if err := s.Apply(context.Background(), batch); err != nil {
					t.Error(err)
				}
				for i := range batch { // and settles them unchanged, which locks as much
					batch[i].Op, batch[i].ID = rule.Settle, rule.ID(caller*rounds+round+1)
					for j := range batch[i].Charges {
						batch[i].Charges[j].Used = 1
					}
				}
				if err := s.Apply(context.Background(), batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	used := int64(0)
	for i := range keys {
		for _, limit := range limits {
			used += 1<<40 - apply(t, s, rule.Peek, store.Charge{Limit: limit, Key: fmt.Sprint(i), Cost: 1}).Remaining
		}
	}
	kit.Eventually(t, "the server to have counted its transactions", func() bool {
		pool.Reset() // a connection reports its statistics when it ends
		return queryNumber(t, pool, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()") >= 2*callers*rounds
	})
	if n := queryNumber(t, pool, "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("got %d deadlocks, or changes of rows that should have been locked", n)
	}
	// A third of the rounds charge one limit, a third the other and a third both.
	if want := int64(callers * rounds * keys * 4 / 3); used != want {
		t.Errorf("got %d units used, %d were charged", used, want)
	}
}
