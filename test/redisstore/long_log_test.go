package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// A log of 10,000 units, mostly full, is decided as by the rule, in batches and over so long that the base of its units changes.
func TestLongLog(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	for _, window := range []rule.Micros{3600e6, 4000e6} {
		now := rule.Micros(1_767_268_800_000_123)
		clock := func() rule.Micros { return now }
		s := newStore(t, client, redisstore.Options{Now: clock})
		model := testkit.Must(memstore.New(memstore.Options{Now: clock}))(t)
		limit := bindRule(t, "long", fmt.Sprint(window), rule.Limit{Algorithm: rule.SlidingLog, Quota: 10_000, Window: window})
		random := rand.New(rand.NewPCG(1, uint64(window)))
		for step := range 120 {
			now += rule.Micros(random.Int64N(200e6))
			batch := make([]store.Request, 1+random.IntN(40))
			want := make([]store.Request, len(batch))
			for i := range batch {
				charge := store.Charge{Limit: limit, Key: fmt.Sprint(random.IntN(2)), Cost: random.Int64N(40)}
				if random.IntN(10) == 0 {
					charge.Cost = random.Int64N(11_000)
				}
				batch[i] = store.Request{Charges: []store.Charge{charge}, Answers: make([]rule.Answer, 1)}
				want[i] = store.Request{Charges: []store.Charge{charge}, Answers: make([]rule.Answer, 1)}
			}
			if err := model.Apply(context.Background(), want); err != nil {
				t.Fatal(err)
			}
			if err := s.Apply(context.Background(), batch); err != nil {
				t.Fatal(err)
			}
			for i := range batch {
				if batch[i].Answers[0] != want[i].Answers[0] {
					t.Fatalf("window %d, step %d, request %d of cost %d: got\n%+v, want\n%+v", window, step, i, batch[i].Charges[0].Cost, batch[i].Answers[0], want[i].Answers[0])
				}
			}
		}
	}
}

// A batch of much work takes several calls, one after another, so that Redis has time for others in between; one of little
// work, or of requests for one log, takes one.
func TestWorkOfCalls(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	long := bindRule(t, "work", "long", rule.Limit{Algorithm: rule.SlidingLog, Quota: 10_000, Window: 3600e6})
	short := bindRule(t, "work", "short", rule.Limit{Algorithm: rule.SlidingLog, Quota: 100, Window: 3600e6})
	for _, c := range []struct {
		limit *store.Limit
		keys  int
		calls int64
	}{{long, 200, 20}, {long, 1, 1}, {short, 200, 1}} {
		batch := make([]store.Request, 200)
		for i := range batch {
			batch[i] = store.Request{Charges: []store.Charge{{Limit: c.limit, Key: fmt.Sprint(i % c.keys), Cost: 1}}, Answers: make([]rule.Answer, 1)}
		}
		if err := s.Apply(t.Context(), batch[:1]); err != nil { // so that the script is known
			t.Fatal(err)
		}
		do(t, client, "CONFIG", "RESETSTAT")
		if err := s.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if got := calls(t, client, "evalsha"); int64(got) != c.calls {
			t.Errorf("%d requests for %d keys with a quota of %d took %d calls, want %d", len(batch), c.keys, c.limit.Rule().Quota, got, c.calls)
		}
	}
}
