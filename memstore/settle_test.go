package memstore_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

const minute = rule.Micros(60_000_000)

// boundTo returns a limit as stores see it.
func boundTo(t testing.TB, name string, limit rule.Limit) *store.Limit {
	t.Helper()
	return store.Bind("", name, name, testkit.Must(limit.Normalize())(t))
}

// decide applies one request and returns its answers.
func decide(t testing.TB, st store.Store, op rule.Op, id rule.ID, charges ...store.Charge) []rule.Answer {
	t.Helper()
	r := store.Request{Op: op, ID: id, Charges: charges, Answers: make([]rule.Answer, len(charges))}
	if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
		t.Fatal(err)
	}
	return r.Answers
}

// everyLimit returns limits of every kind of state, named so that one request can have all of them.
func everyLimit(t testing.TB, quota int64) []*store.Limit {
	t.Helper()
	return []*store.Limit{
		boundTo(t, "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: quota, Window: minute}),
		boundTo(t, "window", rule.Limit{Algorithm: rule.SlidingWindow, Quota: quota, Window: minute}),
		boundTo(t, "parts", rule.Limit{Algorithm: rule.SlidingWindow, Quota: quota, Window: minute, Segments: 6}),
		boundTo(t, "fixed", rule.Limit{Algorithm: rule.FixedWindow, Quota: quota, Window: minute}),
		boundTo(t, "large", rule.Limit{Algorithm: rule.SlidingWindow, Quota: quota << 36, Window: minute}), // cannot be packed
		boundTo(t, "bucket", rule.Limit{Algorithm: rule.TokenBucket, Quota: quota, Burst: 2 * quota, Window: minute}),
		boundTo(t, "day", rule.Limit{Calendar: rule.Day, Zone: "Europe/Berlin", Quota: quota}),
		boundTo(t, "slots", rule.Limit{Algorithm: rule.InFlight, Quota: min(quota, rule.MaxLogQuota), Window: minute}),
		boundTo(t, "default", rule.Limit{Quota: quota, Window: minute}),
		boundTo(t, "parts by lease", rule.Limit{Quota: quota, Window: minute, Lease: true}),
		boundTo(t, "both", rule.Limit{Quota: 23 * quota, Window: minute}), // with quotas of 3 and 5, 69 and 115
	}
}

// holding returns limits that hold what is reserved, where they can.
func holding(t testing.TB, limits []*store.Limit) []*store.Limit {
	t.Helper()
	for i, limit := range limits {
		if l := *limit.Rule(); l.Algorithm != rule.InFlight && !l.Lease {
			l.Hold = 3 * minute / 2
			limits[i] = boundTo(t, limit.Name(), l)
		}
	}
	return limits
}

// plainStore is the rule over maps, with settlements as store.Store describes them.
type plainStore struct {
	states map[string]rule.State
	memos  map[string]plainMemo // by address and id
	counts map[string]int64     // by address, memory and generation
}

type plainMemo struct {
	record []int64
	until  rule.Micros
}

func newPlainStore() *plainStore {
	return &plainStore{map[string]rule.State{}, map[string]plainMemo{}, map[string]int64{}}
}

func (p *plainStore) apply(r *store.Request, now rule.Micros) {
	items, states, names := make([]rule.Item, len(r.Charges)), make([]rule.State, len(r.Charges)), make([]string, len(r.Charges))
	memory, most := r.Memory()
	for i, c := range r.Charges {
		limit := c.Limit.Rule()
		names[i] = fmt.Sprint(c.Limit.Prefix(), " ", c.Key)
		states[i] = p.states[names[i]].Clone()
		items[i] = rule.Item{Limit: limit, State: &states[i], Cost: c.Cost, Used: c.Used, At: c.At, ID: r.ID, Hold: r.Hold}
	}
	switch {
	case memory > 0:
		var memo rule.Memo
		at := rule.SettledAt(items, now)
		group := fmt.Sprint(names[0], " ", memory, " ", at/memory)
		name := fmt.Sprint(names[0], " ", r.ID)
		if known, ok := p.memos[name]; ok && now < known.until {
			memo.Known, memo.Record = true, known.record
		}
		memo.Full = !memo.Known && p.counts[group] >= most
		rule.DecideOnce(r.Op, r.Once, items, &memo, now, r.Answers)
		if memo.Changed {
			p.memos[name] = plainMemo{memo.Record, max((at/memory+2)*memory, (at/rule.LongMemory+2)*rule.LongMemory)}
			p.counts[group]++
		}
	case r.Op == rule.Settle:
		rule.DecideOnce(r.Op, r.Once, items, &rule.Memo{}, now, r.Answers)
	default:
		rule.Decide(r.Op, items, now, r.Answers)
	}
	for i := range items {
		if items[i].Changed {
			p.states[names[i]] = states[i]
		}
	}
}

// Random operations over limits of every kind decide as the rule does over plain maps.
func TestEveryOperationAtRandom(t *testing.T) {
	memstore.Alone(t)
	seen := playAtRandom(t, 15, 60_000, func(random *rand.Rand) rule.Micros {
		return rule.Micros(random.Int64N(int64(minute) / int64(1+random.IntN(100))))
	})
	for _, want := range []string{"settle true none", "settle true repeated", "renew true none", "renew false none", "take false none",
		"take false held", "take true repeated", "take false repeated"} {
		if seen[want] == 0 {
			t.Errorf("no answer %q: the test proves nothing about it", want)
		}
	}
}

// The same while the clock is set back and forward, by less than a window and by years.
func TestEveryOperationWhileTheClockIsSet(t *testing.T) {
	memstore.Alone(t)
	seen := map[string]int{}
	for seed := range uint64(10) { // after more requests, a store drops what has expired, even if the clock is set back later
		maps.Copy(seen, playAtRandom(t, 16+seed, 6_000, func(random *rand.Rand) rule.Micros {
			most := []rule.Micros{minute / 10, 3 * minute, 60 * minute, 10 * 366 * 24 * 60 * minute}[min(random.IntN(5), random.IntN(4))]
			return rule.Micros(random.Int64N(int64(2*most))) - most
		}))
	}
	for _, want := range []string{"settle true clock-moved", "give-back true clock-moved", "take true clock-moved", "charge true clock-moved", "settle true repeated"} {
		if seen[want] == 0 {
			t.Errorf("no answer %q: the test proves nothing about it: %v", want, seen)
		}
	}
}

// playAtRandom sends random requests to a store and to a plainStore, moves the clock by what step returns now and then, and
// returns how often there was which answer.
func playAtRandom(t *testing.T, seed uint64, rounds int, step func(*rand.Rand) rule.Micros) map[string]int {
	clock := storetest.NewClock(1_767_225_750_000_000)
	st := open(t, memstore.Options{Now: clock.Now})
	plain := newPlainStore()
	plans := [][]*store.Limit{everyLimit(t, 5), everyLimit(t, 3), holding(t, everyLimit(t, 4))} // they share their counts
	// A key with a new slot may replace one that has expired, and so may a page that replaces another. None of that happens once all keys
	// have slots and their pages are as they will be.
	for _, limit := range plans[2] {
		for _, keep := range []bool{false, true} {
			for key := range 3 {
				r := store.Request{ID: 99, Hold: keep, Charges: []store.Charge{{Limit: limit, Key: fmt.Sprint(key), Cost: 1}}, Answers: make([]rule.Answer, 1)}
				if limit.Rule().Algorithm != rule.InFlight {
					r.Charges[0].Cost = limit.Rule().Quota / 4
				}
				plain.apply(&r, clock.Now())
				if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	seen := map[string]int{}
	for i := range rounds {
		r := drawRequest(random, plans, clock.Now())
		want := r
		want.Answers = make([]rule.Answer, len(r.Charges))
		want.Charges = slices.Clone(r.Charges)
		plain.apply(&want, clock.Now())
		if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Answers, want.Answers) {
			t.Fatalf("seed %d, request %d, %v of %+v:\n got %+v\nwant %+v", seed, i, r.Op, r.Charges, r.Answers, want.Answers)
		}
		for _, a := range r.Answers {
			seen[fmt.Sprint(r.Op, a.Allowed, a.Flags)]++
		}
		if random.IntN(3) == 0 {
			clock.Set(min(max(clock.Now()+step(random), 2*minute), rule.MaxNow))
		}
	}
	return seen
}

// drawRequest returns a request about one to three limits.
func drawRequest(random *rand.Rand, plans [][]*store.Limit, now rule.Micros) store.Request {
	ops := []rule.Op{rule.Take, rule.Take, rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge, rule.GiveBack, rule.Reset, rule.Settle, rule.Settle, rule.Renew}
	r := store.Request{Op: ops[random.IntN(len(ops))], ID: rule.ID(1 + random.IntN(20))}
	if r.Op == rule.Reset && random.IntN(10) > 0 {
		r.Op = rule.Renew
	}
	if r.Op == rule.Take || r.Op == rule.Settle {
		r.Hold, r.Once = random.IntN(2) == 0, random.IntN(3) == 0
	}
	for _, at := range random.Perm(len(plans[0]))[:1+random.IntN(3)] {
		c := store.Charge{Limit: plans[random.IntN(len(plans))][at], Key: fmt.Sprint(random.IntN(3)), Cost: random.Int64N(4), Used: random.Int64N(5)}
		if c.Limit.Rule().Algorithm == rule.InFlight {
			c.Cost = min(c.Cost, 1)
		}
		if random.IntN(3) > 0 {
			c.At = now - rule.Micros(random.Int64N(int64(2*minute)))
		}
		r.Charges = append(r.Charges, c)
	}
	r.Answers = make([]rule.Answer, len(r.Charges))
	return r
}

// A generation holds as many settlements as the limit has units, at least a thousand. Beyond that nothing is given back,
// but slots are released; in the next generation there is space again, and remembered settlements stay known.
func TestSettlementsAreBounded(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(1_767_225_750_000_000)
	st := open(t, memstore.Options{Now: clock.Now})
	limit := boundTo(t, "window", rule.Limit{Algorithm: rule.SlidingWindow, Quota: 1_000_000, Window: minute})
	slots := boundTo(t, "slots", rule.Limit{Algorithm: rule.InFlight, Quota: 10, Window: minute})
	memory, most := limit.Rule().Memory(), rule.ID(limit.Rule().Settlements())
	if memory != 2*minute || most != 250_000 {
		t.Fatalf("unexpected bounds: %d for %d", most, memory)
	}
	at := decide(t, st, rule.Take, 0, store.Charge{Limit: limit, Key: "key", Cost: 500_000})[0].At
	settle := func(id rule.ID) rule.Answer {
		return decide(t, st, rule.Settle, id, store.Charge{Limit: limit, Key: "key", Cost: 2, Used: 1, At: at})[0]
	}
	for id := rule.ID(1); id <= most; id++ {
		if a := settle(id); a.Granted != 1 || a.Flags != 0 {
			t.Fatalf("settlement %d: got %+v, want Granted 1, no flags", id, a)
		}
	}
	decide(t, st, rule.Take, most+1, store.Charge{Limit: slots, Key: "key", Cost: 1})
	both := decide(t, st, rule.Settle, most+1, store.Charge{Limit: limit, Key: "key", Cost: 2, Used: 1, At: at},
		store.Charge{Limit: slots, Key: "key", Cost: 1})
	if both[0].Granted != 0 || both[0].Flags != rule.Unsettled || both[0].Remaining != 750_000 {
		t.Errorf("one settlement too many: got %+v, want Granted 0, the flag Unsettled, Remaining 750000", both[0])
	}
	if both[1].Granted != 1 || both[1].Flags != 0 || both[1].Remaining != 10 {
		t.Errorf("the slot of a reservation that could not be settled: got %+v, want Granted 1, no flags, Remaining 10", both[1])
	}
	if a := settle(1); a.Granted != 1 || a.Flags != rule.Repeated || a.Remaining != 750_000 {
		t.Errorf("the first settlement again: got %+v, want Granted 1, the flag Repeated, Remaining 750000", a)
	}
	if a := decide(t, st, rule.Settle, most+1, store.Charge{Limit: limit, Key: "other", Cost: 2, Used: 1, At: at})[0]; a.Flags != 0 {
		t.Errorf("no space for another key: got %+v, want no flags", a)
	}
	clock.Set((clock.Now()/memory + 1) * memory)
	if a := settle(most + 1); a.Flags != 0 {
		t.Errorf("in the next generation: got %+v, want no flags", a)
	}
	clock.Set((clock.Now()/rule.LongMemory + 2) * rule.LongMemory)
	clock.Advance(-1)
	if a := settle(1); a.Flags != rule.Repeated {
		t.Errorf("after ten minutes at least: got %+v, want the flag Repeated", a)
	}
	clock.Advance(1)
	if a := settle(1); a.Flags != 0 {
		t.Errorf("after the next ten minutes: got %+v, want no flags", a)
	}
}

// If the clock is set back between a charge and its settlement, the settlement is known for as long as the units count: they
// count again once the clock has come close to the time of the charge.
func TestSettlementAfterTheClockWasSetBack(t *testing.T) {
	for i, limit := range everyLimit(t, 100)[:7] {
		clock := storetest.NewClock(1_767_225_750_000_000)
		st := open(t, memstore.Options{Now: clock.Now})
		memory := limit.Rule().Memory()
		charge := store.Charge{Limit: limit, Key: "key", Cost: 5, Used: 5}
		charge.At = decide(t, st, rule.Take, 1, charge)[0].At
		clock.Advance(-10 * memory)
		decide(t, st, rule.Settle, 1, charge)
		clock.Set(charge.At - 1)
		charge.Used = 0
		if a := decide(t, st, rule.Settle, 1, charge)[0]; a.Flags&rule.Repeated == 0 || a.Granted != 0 || a.Remaining != limit.Rule().Capacity()-5 {
			t.Errorf("%d, %s: got %+v, want the flag Repeated, Granted 0, 5 used", i, limit.Name(), a)
		}
	}
}

// A flood of reservations of many keys fills the memory for settlements, and no more, and space returns with time.
func TestFloodOfSettlements(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(1_767_225_750_000_000)
	st := open(t, memstore.Options{Now: clock.Now, MaxBytes: 5_120_000})
	limit := boundTo(t, "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 10, Window: minute})
	settle := func(round, key int) rule.Answer {
		charge := store.Charge{Limit: limit, Key: fmt.Sprint(key), Cost: 1}
		charge.At = decide(t, st, rule.Take, 0, charge)[0].At
		return decide(t, st, rule.Settle, rule.ID(1+round), charge)[0]
	}
	for round := range 3 {
		for i := range 20_000 {
			if got, full := settle(round, i).Flags&rule.Unsettled != 0, i >= 5000; got != full {
				t.Fatalf("round %d, key %d of a store that remembers 5000: unsettled %v", round, i, got)
			}
		}
		if n := st.Stats().Settlements; n != 5000 {
			t.Fatalf("%d are remembered, want 5000", n)
		}
		clock.Advance(2 * limit.Rule().Memory())
	}
}

// A reset forgets the counts of a key, but not that its reservations were settled.
func TestResetForgetsNoSettlement(t *testing.T) {
	clock := storetest.NewClock(1_767_225_750_000_000)
	st := open(t, memstore.Options{Now: clock.Now})
	charge := store.Charge{Limit: everyLimit(t, 10)[0], Key: "key", Cost: 3}
	charge.At = decide(t, st, rule.Take, 7, charge)[0].At
	decide(t, st, rule.Settle, 7, charge)
	decide(t, st, rule.Reset, 0, charge)
	decide(t, st, rule.Take, 8, charge)
	if a := decide(t, st, rule.Settle, 7, charge)[0]; a.Flags != rule.Repeated || a.Remaining != 7 {
		t.Errorf("settled again after a reset: got %+v, want the flag Repeated, Remaining 7", a)
	}
}

// Every settlement is sent one to three times from many goroutines, for less, for more and for nothing, over all limits
// together: the counts are as if each was sent once.
func TestSettleIsDoneOnce(t *testing.T) {
	const workers, reservations, quota = 8, 400, 10_000
	clock := storetest.NewClock(1_767_225_750_000_000)
	st := open(t, memstore.Options{Now: clock.Now})
	limits := everyLimit(t, quota)
	type sent struct {
		id      rule.ID
		charges []store.Charge
	}
	var all []sent
	var want int64
	random := rand.New(rand.NewPCG(15, 0))
	for i := range rule.ID(reservations) {
		used := random.Int64N(6)
		want += used
		s := sent{id: i + 1}
		for _, limit := range limits {
			s.charges = append(s.charges, store.Charge{Limit: limit, Key: "key", Cost: 3, Used: used})
		}
		s.charges[7].Cost = 1
		for i, a := range decide(t, st, rule.Take, s.id, s.charges...) {
			s.charges[i].At = a.At
		}
		for range 1 + random.IntN(3) {
			all = append(all, s)
		}
	}
	random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(all); i += workers {
				r := store.Request{Op: rule.Settle, ID: all[i].id, Charges: all[i].charges, Answers: make([]rule.Answer, len(limits))}
				if err := st.Apply(context.Background(), []store.Request{r}); err != nil {
					t.Error(err)
				}
				for k, a := range r.Answers[:7] {
					if a.Granted != 3-r.Charges[k].Used || a.Flags&^rule.Repeated != 0 {
						t.Errorf("%s: %+v for %d used of 3", limits[k].Name(), a, r.Charges[k].Used)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, limit := range limits {
		free := limit.Rule().Capacity()
		if limit.Rule().Algorithm != rule.InFlight {
			free -= want
		}
		if a := decide(t, st, rule.Peek, 0, store.Charge{Limit: limit, Key: "key", Cost: 1})[0]; a.Remaining != free {
			t.Errorf("%s: %d remain, want %d", limit.Name(), a.Remaining, free)
		}
	}
}

// Units used beyond a reservation may be too many for the word that the state is packed into.
func TestSettlementOutgrowsItsWord(t *testing.T) {
	clock := storetest.NewClock(1_767_225_750_000_000)
	st := open(t, memstore.Options{Now: clock.Now})
	charge := store.Charge{Limit: boundTo(t, "window", rule.Limit{Algorithm: rule.SlidingWindow, Quota: 1 << 50, Window: minute}), Key: "key", Cost: 1}
	charge.At = decide(t, st, rule.Take, 1, charge)[0].At
	charge.Used = 1 << 49
	if a := decide(t, st, rule.Settle, 1, charge)[0]; a.Granted != 1-1<<49 || a.Remaining != 1<<49 {
		t.Errorf("half of the quota was used: got %+v, want Granted 1-1<<49, Remaining 1<<49", a)
	}
}
