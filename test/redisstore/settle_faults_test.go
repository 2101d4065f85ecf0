package redisstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/workers"
)

// Settlements are sent repeatedly by processes over connections that break, while the server and a process are killed.
// Each counts once.

// faultyLimits are those of a reservation. Nothing of them expires or refills during the test, except for less than a
// unit of the bucket.
func faultyLimits(t *testing.T) []*store.Limit {
	t.Helper()
	return []*store.Limit{
		bindRule(t, "faults", "window", rule.Limit{Algorithm: rule.SlidingWindow, Anchor: rule.AnchorFirst, Quota: 100_000, Window: hour}),
		bindRule(t, "faults", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 10_000, Window: hour}),
		bindRule(t, "faults", "bucket", rule.Limit{Algorithm: rule.TokenBucket, Quota: 1, Burst: 1_000, Window: 40 * hour}),
		bindRule(t, "faults", "in-flight", rule.Limit{Algorithm: rule.InFlight, Quota: 1_000, Window: hour}),
	}
}

// reservation holds the units reserved of each limit, and the units used in the end.
type reservation struct {
	ID         rule.ID
	Key        string
	Cost, Used int64
	At         []rule.Micros
}

func (r *reservation) request(op rule.Op, limits []*store.Limit) store.Request {
	made := store.Request{Op: op, ID: r.ID, Answers: make([]rule.Answer, len(limits))}
	for i, limit := range limits {
		charge := store.Charge{Limit: limit, Key: r.Key, Cost: r.Cost, Used: r.Used}
		if limit.Rule().Algorithm == rule.InFlight {
			charge.Cost, charge.Used = 1, 0
		}
		if op == rule.Settle {
			charge.At = r.At[i]
		}
		made.Charges = append(made.Charges, charge)
	}
	return made
}

// settleOrder is the work of a process: reservations to settle, and in which time.
type settleOrder struct {
	Reservations []reservation
	Within       time.Duration
	Seed         uint64
}

// settled is the answer to a settlement.
type settled struct {
	ID           rule.ID
	Back         []int64
	Sent, Failed int
}

// settleAll settles reservations, each one to three times and until it is answered.
func settleAll(s *redisstore.Store, limits []*store.Limit, text []byte) (all []settled, err error) {
	var order settleOrder
	if err := json.Unmarshal(text, &order); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(order.Seed, 0))
	start := time.Now()
	for i := range order.Reservations {
		<-time.After(time.Until(start.Add(order.Within * time.Duration(i) / time.Duration(len(order.Reservations))))) // spread over the whole time
		did := settled{ID: order.Reservations[i].ID}
		for range 1 + random.IntN(3) {
			if err := did.settle(s, order.Reservations[i].request(rule.Settle, limits)); err != nil {
				return nil, err
			}
		}
		all = append(all, did)
	}
	return all, nil
}

// settle sends a settlement until it is answered.
func (d *settled) settle(s *redisstore.Store, r store.Request) error {
	var err error
	for range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		err = s.Apply(ctx, []store.Request{r})
		cancel()
		d.Sent++
		if err == nil {
			break
		}
		d.Failed++
		<-time.After(5 * time.Millisecond) // the server may be starting
	}
	if err != nil {
		return err
	}
	var back []int64
	for i := range r.Answers[:len(r.Answers)-1] { // except the slot, which is released or no longer held
		back = append(back, r.Answers[i].Granted)
	}
	if d.Back != nil && !slices.Equal(back, d.Back) {
		return fmt.Errorf("reservation %d was settled %v and then %v", d.ID, d.Back, back)
	}
	d.Back = back
	return nil
}

const (
	faultyProcesses = 4
	faultyEach      = 120 // reservations per process
	faultyKeys      = 6
)

// reserve makes the reservations of a process.
func reserve(t *testing.T, s *redisstore.Store, limits []*store.Limit, random *rand.Rand) (all []reservation) {
	t.Helper()
	var batch []store.Request
	for range faultyEach {
		r := reservation{ID: rule.ID(random.Uint64()), Key: fmt.Sprint("key-", random.IntN(faultyKeys)), Cost: 1 + random.Int64N(5)}
		r.Used = random.Int64N(r.Cost + 2)
		all, batch = append(all, r), append(batch, r.request(rule.Take, limits))
	}
	if err := s.Apply(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	for i := range batch {
		for _, a := range batch[i].Answers {
			if !a.Allowed {
				t.Fatalf("a reservation was refused: got %+v, want allowed", batch[i])
			}
			all[i].At = append(all[i].At, a.At)
		}
	}
	return all
}

func TestSettlementsUnderFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly yes", "appendfsync always")
	wire := faultproxy.New(t, server.Addr())
	direct := newStore(t, server.Client(t), redisstore.Options{})
	limits := faultyLimits(t)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	processes := workers.Start(t, faultyProcesses, "settle "+wire.Addr())
	var shares [][]reservation
	for i, p := range processes {
		shares = append(shares, reserve(t, direct, limits, random))
		p.Send(t, settleOrder{shares[i], *historyLength, random.Uint64()})
	}
	faults := map[string]int{}
	victim := processes[faultyProcesses-1]
	killing := time.AfterFunc(*historyLength/2, victim.Kill)
	history.Disturb(wire, server.Restart, random, faults, time.Now().Add(*historyLength))
	if killing.Stop() {
		t.Fatal("no process was killed while it was settling")
	}
	did := workers.ReceiveAll[[]settled](t, processes[:faultyProcesses-1])
	// It is unknown how far the killed process got: another one settles all of its reservations, and the others settle each
	// other's once more.
	for i, p := range processes[:faultyProcesses-1] {
		p.Send(t, settleOrder{shares[(i+faultyProcesses-1)%faultyProcesses], 0, random.Uint64()})
	}
	did = append(did, workers.ReceiveAll[[]settled](t, processes[:faultyProcesses-1])...)
	checkBacks(t, did, faults)
	checkCounts(t, direct, limits, slices.Concat(shares...))
}

// checkBacks fails the test if two processes got different answers.
func checkBacks(t *testing.T, did [][]settled, faults map[string]int) {
	t.Helper()
	known, sent, failed := map[rule.ID][]int64{}, 0, 0
	for _, d := range slices.Concat(did...) {
		if before, ok := known[d.ID]; ok && !slices.Equal(before, d.Back) {
			t.Errorf("reservation %d was settled %v by one process and %v by another", d.ID, before, d.Back)
		}
		known[d.ID] = d.Back
		sent, failed = sent+d.Sent, failed+d.Failed
	}
	t.Logf("%d reservations settled, sent %d times, %d of them without an answer; %v", len(known), sent, failed, faults)
	if failed == 0 || len(known) != faultyProcesses*faultyEach {
		t.Errorf("got %d of %d settled, %d times without an answer: the test proves little", len(known), faultyProcesses*faultyEach, failed)
	}
}

// checkCounts fails the test unless each limit has as many units left as if each reservation had been settled once.
func checkCounts(t *testing.T, direct *redisstore.Store, limits []*store.Limit, all []reservation) {
	t.Helper()
	for i := range faultyKeys {
		key := fmt.Sprint("key-", i)
		var used int64
		for _, r := range all {
			if r.Key == key {
				used += r.Used
			}
		}
		for _, limit := range limits {
			want, within := limit.Rule().Capacity()-used, int64(0)
			switch limit.Rule().Algorithm {
			case rule.TokenBucket:
				within = 1 // unit that may have been refilled meanwhile
			case rule.InFlight:
				want = limit.Rule().Quota
			}
			var a rule.Answer
			kit.Eventually(t, "the server to answer", func() bool {
				var err error
				a, err = tryApply(context.Background(), direct, rule.Peek, store.Charge{Limit: limit, Key: key})
				return !errors.Is(err, context.DeadlineExceeded) && err == nil
			})
			if a.Remaining > want || a.Remaining < want-within {
				t.Errorf("%s, %s: got %d remaining, want %d", key, limit.Name(), a.Remaining, want)
			}
		}
	}
}
