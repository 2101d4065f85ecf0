package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/pgtest"
)

// firstEdition is the number of steps of the version before the second edition of the rule.
const firstEdition = 5

// oldSchema creates the schema of the previous version.
func oldSchema(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, step := range kit.Must(pgstore.Migrations(pgstore.Options{}))(t)[:firstEdition] {
		if _, err := pool.Exec(t.Context(), step.Up, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("step %d: %v", step.Version, err)
		}
	}
}

// oldProgram calls the functions as the previous version does.
type oldProgram struct{ pool *pgxpool.Pool }

// decide sends one charge, and returns whether it was allowed and how many units were granted.
func (p oldProgram) decide(op rule.Op, limit *store.Limit, address string, cost int64, now rule.Micros) (allowed bool, granted int64, err error) {
	l := limit.Rule()
	bit := map[bool]int64{true: 1}
	part := l.Window / rule.Micros(max(1, l.Segments))
	numbers := []int64{
		int64(now), 0, 1, 0, 1, int64(op), 1, int64(l.Algorithm.Code()), int64(l.Overlap), bit[l.Anchor == rule.AnchorFirst], bit[l.CountDenied],
		int64(l.Parts()), l.Quota, l.Burst, int64(l.Window), int64(part), cost, 0,
	}
	var reply []int64
	err = p.pool.QueryRow(context.Background(), "SELECT slidegate_decide($1, $2)", []string{address}, numbers).Scan(&reply)
	if err != nil {
		return false, 0, err
	}
	return reply[1]&1 != 0, reply[2], nil
}

// take sends one charge by the fast path.
func (p oldProgram) take(limit *store.Limit, address string, cost int64, now rule.Micros) (allowed bool, err error) {
	l := limit.Rule()
	bit := map[bool]int64{true: 1}
	var reply []int64
	err = p.pool.QueryRow(context.Background(), "SELECT slidegate_take($1, $2, 0, $3, $4, $5, $6, $7, $8, $9, 1)", address, int64(now),
		bit[l.Algorithm == rule.FixedWindow], bit[l.Anchor == rule.AnchorFirst], bit[l.CountDenied], int64(l.Overlap), l.Quota, int64(l.Window),
		cost).Scan(&reply)
	return err == nil && reply[4] > 1, err
}

// oldLimits are those that the previous version has.
var oldLimits = []rule.Limit{
	{Algorithm: rule.SlidingWindow, Quota: 20, Window: 60e6},
	{Algorithm: rule.SlidingWindow, Quota: 20, Window: 60e6, Segments: 6, Overlap: rule.OverlapWhole, CountDenied: true},
	{Algorithm: rule.FixedWindow, Quota: 20, Window: 60e6, Anchor: rule.AnchorFirst},
	{Algorithm: rule.SlidingLog, Quota: 20, Window: 60e6},
	{Algorithm: rule.TokenBucket, Quota: 7, Burst: 20, Window: 60e6},
	{Algorithm: rule.TokenBucket, Quota: 1<<40 + 1, Burst: 1 << 39, Window: 1_000_003},
}

// Programs of the previous version and of this one decide about the same keys, first the old ones alone in their
// schema, then both during an upgrade. Both give the rule's answer, so no key gets its quota twice.
func TestOldAndNewProgramsShareCounts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Shared(t).Pool(t)
	oldSchema(t, pool)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	now := rule.Micros(1_767_000_000e6)
	st := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }})
	limits, states := make([]*store.Limit, len(oldLimits)), make([]rule.State, len(oldLimits))
	for i, l := range oldLimits {
		limits[i] = bindRule(t, "shop", fmt.Sprint(i), l)
	}
	const rounds = 90
	for round := range rounds {
		if round == rounds/3 {
			noError(t, pgstore.Migrate(t.Context(), pool, pgstore.Options{}))
		}
		now += rule.Micros(random.Int64N(10e6))
		for i, limit := range limits {
			l := limit.Rule()
			address := "shop:" + fmt.Sprint(i) + ":" + l.Shape().String() + "::key"
			op := []rule.Op{rule.Take, rule.Take, rule.TakeUpTo, rule.Charge, rule.Peek}[random.IntN(5)]
			cost := 1 + random.Int64N(l.Capacity()/4)
			var want [1]rule.Answer
			rule.Decide(op, []rule.Item{{Limit: l, State: &states[i], Cost: cost}}, now, want[:])
			if round >= rounds/3 && random.IntN(2) == 0 {
				if got := apply(t, st, op, store.Charge{Limit: limit, Key: "key", Cost: cost}); got != want[0] {
					t.Fatalf("round %d, %+v, %v of %d: the new program got\n     %+v,\nwant %+v", round, *l, op, cost, got, want[0])
				}
				continue
			}
			allowed, granted, err := false, int64(0), error(nil)
			if op == rule.Take && l.IsPair() {
				if allowed, err = (oldProgram{pool}).take(limit, address, cost, now); allowed {
					granted = cost
				}
			} else {
				allowed, granted, err = oldProgram{pool}.decide(op, limit, address, cost, now)
			}
			if err != nil || allowed != want[0].Allowed || granted != want[0].Granted {
				t.Fatalf("round %d, %+v, %v of %d: the old program got %v, %d, %v, want %+v", round, *l, op, cost, allowed, granted, err, want[0])
			}
		}
	}
	if n := queryNumber(t, pool, "SELECT count(*) FROM slidegate_state"); n != int64(len(oldLimits)) {
		t.Errorf("got %d rows, want one per limit", n)
	}
}

// If a new program changes the quota of a bucket, used units stay used, even if an old program wrote the state.
func TestOldBucketKeepsWhatWasUsed(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	now := rule.Micros(1_767_000_000e6)
	st := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }})
	small := bindRule(t, "shop", "bucket", rule.Limit{Algorithm: rule.TokenBucket, Quota: 10, Window: 3600e6})
	large := bindRule(t, "shop", "bucket", rule.Limit{Algorithm: rule.TokenBucket, Quota: 1000, Burst: 10, Window: 3600e6})
	apply(t, st, rule.Take, store.Charge{Limit: small, Key: "key", Cost: 10})
	a := apply(t, st, rule.Take, store.Charge{Limit: large, Key: "key", Cost: 1})
	if a.Allowed || a.RetryAfter != 3_600_000 || a.Flags != 0 {
		t.Errorf("a bucket that was drained at 10/1h: got %+v at 1000/1h, want the next unit in 3.6 s", a)
	}
	address := "shop:bucket:token-bucket-3600000000::key"
	if _, granted, err := (oldProgram{pool}).decide(rule.Charge, small, address, 1, now); granted != 1 || err != nil {
		t.Fatalf("got %d granted, %v, want 1", granted, err)
	}
	now += 360e6
	if a := apply(t, st, rule.Peek, store.Charge{Limit: small, Key: "key", Cost: 1}); a.Allowed || a.RetryAfter != 360e6 {
		t.Errorf("after the old program charged one unit more: %+v, want to wait for one more unit", a)
	}
}

// Ten processes migrate concurrently while programs of the previous version keep deciding: none of them gets an error,
// and every unit counts.
func TestUpgradeWhileOldProgramsDecide(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	pool := server.Pool(t, "pool_max_conns=16")
	oldSchema(t, pool)
	window := bindRule(t, "shop", "window", rule.Limit{Algorithm: rule.SlidingWindow, Quota: 1 << 40, Window: 3600e6, Anchor: rule.AnchorFirst})
	bucket := bindRule(t, "shop", "bucket", rule.Limit{Algorithm: rule.TokenBucket, Quota: 1 << 40, Window: 3600e6})
	const now = rule.Micros(1_767_000_000e6) // nothing is refilled
	var charged atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var old, migrating sync.WaitGroup
	started := make(chan struct{}, 4)
	for range 4 {
		old.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, err := oldProgram{pool}.take(window, "shop:window:sliding-window-3600000000-1-first::key", 1, now)
				if err == nil {
					_, _, err = oldProgram{pool}.decide(rule.Take, bucket, "shop:bucket:token-bucket-3600000000::key", 1, now)
				}
				if err != nil {
					t.Errorf("an old program: %v", err)
					return
				}
				if charged.Add(1); i == 0 {
					started <- struct{}{}
				}
			}
		})
	}
	for range 4 {
		<-started
	}
	for range 10 {
		other := server.Pool(t, "pool_max_conns=1")
		migrating.Go(func() {
			if err := pgstore.Migrate(context.Background(), other, pgstore.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	migrating.Wait()
	st := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }})
	for range 50 {
		for _, limit := range []*store.Limit{window, bucket} {
			apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "key", Cost: 1})
		}
	}
	cancel()
	old.Wait()
	for _, limit := range []*store.Limit{window, bucket} {
		a := apply(t, st, rule.Peek, store.Charge{Limit: limit, Key: "key", Cost: 1})
		if used := 1<<40 - a.Remaining; used != charged.Load()+50 {
			t.Errorf("%s: got %d units used, want %d", limit.Name(), used, charged.Load()+50)
		}
	}
}

// A row written by a newer version is an error that says what to do, by every path, and is not changed.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	st := newStore(t, pool, pgstore.Options{})
	var limits []*store.Limit
	for i, l := range append(oldLimits, rule.Limit{Algorithm: rule.InFlight, Quota: 2, Window: 60e6}, rule.Limit{Calendar: rule.Day, Quota: 2}) {
		limits = append(limits, bindRule(t, "shop", fmt.Sprint(i), l))
		apply(t, st, rule.Take, store.Charge{Limit: limits[i], Key: "key", Cost: 1})
	}
	if _, err := pool.Exec(t.Context(), "UPDATE slidegate_state SET previous = -3"); err != nil {
		t.Fatal(err)
	}
	before := queryText(t, pool, "SELECT string_agg(s::text, ' ' ORDER BY s.address) FROM slidegate_state s")
	one := func(limit *store.Limit) store.Request {
		return store.Request{Charges: []store.Charge{{Limit: limit, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1)}
	}
	batches := [][]store.Request{{one(limits[0]), one(limits[2])}, {one(limits[1]), one(limits[3])}} // take_many2, takes3
	for _, limit := range limits {
		batches = append(batches, []store.Request{one(limit)})
	}
	for i, batch := range batches {
		err := st.Apply(t.Context(), batch)
		if codeOf(err) != "SG001" || !strings.Contains(err.Error(), "upgrade this program") {
			t.Errorf("batch %d: got error %v, want one that says to upgrade", i, err)
		}
	}
	if after := queryText(t, pool, "SELECT string_agg(s::text, ' ' ORDER BY s.address) FROM slidegate_state s"); after != before {
		t.Errorf("the rows were\n%s\nand are\n%s", before, after)
	}
}

// Undoing the steps down to those of the previous version keeps every count for it, and applying them again keeps what
// it counted.
func TestDownToOldProgram(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	now := rule.Micros(1_767_000_000e6)
	st := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }})
	var limits []*store.Limit
	for i, l := range oldLimits {
		limits = append(limits, bindRule(t, "shop", fmt.Sprint(i), l))
		apply(t, st, rule.Take, store.Charge{Limit: limits[i], Key: "key", Cost: l.Capacity() / 2})
	}
	steps := kit.Must(pgstore.Migrations(pgstore.Options{}))(t)
	for i := len(steps) - 1; i >= firstEdition; i-- {
		if _, err := pool.Exec(t.Context(), steps[i].Down, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("undoing step %d: %v", steps[i].Version, err)
		}
	}
	for i, limit := range limits {
		l := limit.Rule()
		address := "shop:" + fmt.Sprint(i) + ":" + l.Shape().String() + "::key"
		half := l.Capacity() / 2
		allowed, _, err := oldProgram{pool}.decide(rule.Take, limit, address, l.Capacity()-half+1, now)
		if allowed || err != nil {
			t.Errorf("%+v: the old program admits more than is left, %v", *l, err)
		}
		if l.CountDenied { // it was counted
			continue
		}
		if allowed, _, err = (oldProgram{pool}).decide(rule.Take, limit, address, l.Capacity()-half, now); !allowed || err != nil {
			t.Errorf("%+v: the old program refuses what is left, %v", *l, err)
		}
	}
	noError(t, pgstore.Migrate(t.Context(), pool, pgstore.Options{}))
	for _, limit := range limits {
		if a := apply(t, st, rule.Peek, store.Charge{Limit: limit, Key: "key", Cost: 1}); a.Remaining != 0 {
			t.Errorf("%+v: got %d remaining in the end, want none", *limit.Rule(), a.Remaining)
		}
	}
}
