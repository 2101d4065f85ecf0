package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// lockable is a store of which rows can be locked: calls that contain a locked key wait until it is unlocked or their
// context ends.
type lockable struct {
	mu     sync.Mutex
	locked map[string]chan struct{}
}

func (l *lockable) lock(key string) (unlock func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locked == nil {
		l.locked = map[string]chan struct{}{}
	}
	free := make(chan struct{})
	l.locked[key] = free
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.locked, key)
		close(free)
	}
}

func (l *lockable) wait(ctx context.Context, batch []store.Request) error {
	_ = slow(ctx, batch)
	for i := range batch {
		for _, c := range batch[i].Charges {
			l.mu.Lock()
			free := l.locked[c.Key]
			l.mu.Unlock()
			if free == nil {
				continue
			}
			select {
			case <-free:
			case <-ctx.Done():
				return batches.FailAll(batch, ctx.Err())
			}
		}
	}
	return nil
}

// A locked row occupies one slot: requests for it wait for the call that has it, while others are decided, and go together
// when it returns, in order of arrival.
func TestLockedRowOccupiesOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows lockable
		inner := newRecorder(t, rows.wait)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 2, Timeout: time.Minute}), bind(t, slidegate.PerHour(100))
		unlock := rows.lock("hot")
		var hot []*pendingRequest
		for range 5 {
			hot = append(hot, send(t.Context(), st, limit, "hot"))
		}
		start := time.Now()
		for round := range 3 {
			var others []*pendingRequest
			for i := range 10 {
				others = append(others, send(t.Context(), st, limit, fmt.Sprint("other-", i)))
				hot = append(hot, send(t.Context(), st, limit, "hot"))
			}
			for _, a := range others {
				a.expect(t, int64(99-round))
			}
		}
		if took := time.Since(start); took != 6*time.Millisecond {
			t.Errorf("three rounds of others, of two calls each, took %v, want 6ms", took)
		}
		if hot[0].isDone() || st.Waiting() != len(hot)-1 || st.Slots() != 1 {
			t.Errorf("done %v, %d waiting, %d slots", hot[0].isDone(), st.Waiting(), st.Slots())
		}
		calls := len(inner.seen())
		unlock()
		for i, a := range hot {
			a.expect(t, int64(99-i))
		}
		if all := inner.seen(); len(all) != calls+1 || len(all[calls]) != len(hot)-1 {
			t.Errorf("those that waited went in the calls %v", all[calls:])
		}
		expectIdle(t, st)
	})
}

// A call that was late because of one row holds up the other addresses in it once: requests for any of them that then wait
// are sent without those of others, until a call with the address is answered in time.
func TestLateAddressIsSentAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows lockable
		inner := newRecorder(t, rows.wait)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 2, Timeout: time.Second}), bind(t, slidegate.PerHour(100))
		both := func(ctx context.Context) { // take all slots, so that the next requests share a call
			send(ctx, st, limit, "first")
			send(ctx, st, limit, "second")
		}
		unlock := rows.lock("hot")
		both(t.Context())
		held := []*pendingRequest{send(t.Context(), st, limit, "hot"), send(t.Context(), st, limit, "a"), send(t.Context(), st, limit, "b")}
		testkit.Delay(500 * time.Millisecond)
		var waiting []*pendingRequest
		for _, key := range []string{"hot", "a", "hot"} {
			waiting = append(waiting, send(t.Context(), st, limit, key))
		}
		for _, a := range held {
			if <-a.done; !errors.Is(a.err, context.DeadlineExceeded) {
				t.Errorf("got %+v, %v, want it late", a.answer, a.err)
			}
		}
		waiting[1].expect(t, 99) // without the locked row
		calls := len(inner.seen())
		for range 3 {
			send(t.Context(), st, limit, "c").expect(t, 99)
			_ = st.Apply(t.Context(), []store.Request{request(rule.Reset, store.Charge{Limit: limit, Key: "c"})})
		}
		unlock()
		waiting[0].expect(t, 99)
		waiting[2].expect(t, 98)
		want := [][]string{{"first"}, {"second"}, {"hot", "a", "b"}, {"hot", "hot"}, {"a"}}
		if got := inner.seen()[:calls]; !reflect.DeepEqual(got, want) {
			t.Errorf("got calls %q, want %q", got, want)
		}
		// It was answered in time, so it shares calls again.
		both(t.Context())
		again := []*pendingRequest{send(t.Context(), st, limit, "a"), send(t.Context(), st, limit, "hot")}
		again[1].expect(t, 97)
		if all := inner.seen(); !reflect.DeepEqual(all[len(all)-1], []string{"a", "hot"}) {
			t.Errorf("got the last call %q", all[len(all)-1])
		}
		expectIdle(t, st)
	})
}

// Requests of an address whose last call was late do not go with one that has only waited for a slot.
func TestLateAddressHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows lockable
		st, limit := newStore(t, newRecorder(t, rows.wait), coalesce.Options{InFlight: 2, Timeout: time.Minute}), bind(t, slidegate.PerHour(100))
		unlock, unlockOther := rows.lock("hot"), rows.lock("slow")
		short, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		defer cancel()
		slow, late := send(t.Context(), st, limit, "slow"), send(short, st, limit, "hot")
		other, hot := send(t.Context(), st, limit, "other"), send(t.Context(), st, limit, "hot")
		start := time.Now()
		if <-late.done; !errors.Is(late.err, context.DeadlineExceeded) {
			t.Errorf("got %v, want it late", late.err)
		}
		other.expect(t, 99)
		if waited := time.Since(start); waited != 3*time.Millisecond || hot.isDone() {
			t.Errorf("the other waited for %v", waited)
		}
		unlock()
		unlockOther()
		hot.expect(t, 99)
		slow.expect(t, 99)
		expectIdle(t, st)
	})
}

// A request with several addresses waits for all of them, keeps its place meanwhile, and is not overtaken by later requests
// for any of them, however many come.
func TestSeveralAddressesAreNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows lockable
		inner := newRecorder(t, rows.wait)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 4, Timeout: time.Minute}), bind(t, slidegate.PerHour(100))
		x, y := rows.lock("x"), rows.lock("y")
		send(t.Context(), st, limit, "x")
		send(t.Context(), st, limit, "y")
		answer := make(chan store.Request, 1)
		go func() {
			batch := []store.Request{request(rule.Take, store.Charge{Limit: limit, Key: "z", Cost: 1},
				store.Charge{Limit: limit, Key: "y", Cost: 1}, store.Charge{Limit: limit, Key: "x", Cost: 1})}
			_ = st.Apply(t.Context(), batch)
			answer <- batch[0]
		}()
		synctest.Wait()
		var later []*pendingRequest
		for range 3 {
			later = append(later, send(t.Context(), st, limit, "z"), send(t.Context(), st, limit, "x"))
		}
		x()
		testkit.Delay(time.Second)
		if synctest.Wait(); len(answer) > 0 || later[0].isDone() || later[1].isDone() {
			t.Error("sent while one of its addresses is in flight, or overtaken")
		}
		y()
		got := <-answer
		if a := got.Answers; got.Err != nil || a[0].Remaining != 99 || a[1].Remaining != 98 || a[2].Remaining != 98 {
			t.Errorf("got %+v, %v, want it decided after the first x and y, and before all others", a, got.Err)
		}
		for i, a := range later { // z and x in turn
			a.expect(t, int64(98-i/2-i%2))
		}
		if calls := inner.seen(); len(calls) != 3 || len(calls[2]) != 7 {
			t.Errorf("got calls %q, want all that waited in the third", calls)
		}
		expectIdle(t, st)
	})
}

// A caller that leaves gives up its places: what waited only because of them is sent.
func TestLeavesItsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows lockable
		st, limit := newStore(t, newRecorder(t, rows.wait), coalesce.Options{InFlight: 2, Timeout: time.Minute}), bind(t, slidegate.PerHour(100))
		unlock := rows.lock("x")
		x := send(t.Context(), st, limit, "x")
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			left <- st.Apply(ctx, []store.Request{take(limit, "x", 1), take(limit, "y", 1)})
		}()
		synctest.Wait()
		y := send(t.Context(), st, limit, "y")
		if y.isDone() || st.Waiting() != 3 {
			t.Errorf("done %v, %d waiting", y.isDone(), st.Waiting())
		}
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing is charged") {
			t.Errorf("got %v", err)
		}
		y.expect(t, 99)
		unlock()
		x.expect(t, 99)
		expectIdle(t, st)
	})
}

// A call that hangs keeps its addresses for Timeout, although calls of other addresses return all the
// time. When it returns at last, it does not release the addresses of the call that then has them.
func TestHangingCallReleasesItsAddresses(t *testing.T) {
	for _, charges := range []int{1, 9} { // with hashes, and with lines
		synctest.Test(t, func(t *testing.T) {
			hang, again := make(chan struct{}), make(chan struct{})
			hung := 0
			inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
				if strings.HasPrefix(batch[0].Charges[0].Key, "hot") {
					if hung++; hung == 1 {
						<-hang // ignores its context
					} else {
						<-again
					}
				}
				return slow(ctx, batch)
			})
			st, limit := newStore(t, inner, coalesce.Options{InFlight: 2, Timeout: time.Second}), bind(t, slidegate.PerHour(100))
			var batch []store.Request
			for i := range charges {
				batch = append(batch, take(limit, fmt.Sprint("hot-", i), 1))
			}
			done := make(chan error)
			go func() { done <- st.Apply(t.Context(), batch) }()
			synctest.Wait()
			waiter := send(t.Context(), st, limit, "hot-0")
			for i := range 150 {
				send(t.Context(), st, limit, fmt.Sprint("other-", i)).expect(t, 99)
				testkit.Delay(9 * time.Millisecond)
			}
			if hung != 2 {
				t.Fatalf("after 1.5 s there were %d calls with the address, want 2", hung)
			}
			close(hang)
			if err := <-done; err != nil {
				t.Error(err)
			}
			last := send(t.Context(), st, limit, "hot-0")
			if hung != 2 || st.Waiting() != 1 {
				t.Errorf("%d calls, %d waiting; want the address still in flight", hung, st.Waiting())
			}
			close(again)
			waiter.expect(t, 98)
			last.expect(t, 97)
			expectIdle(t, st)
		})
	}
}

// The default of InFlight is what the store says that serves it best.
func TestInFlightOfTheStore(t *testing.T) {
	for calls, want := range map[int]int{-1: 4, 0: 4, 1: 1, 3: 3} {
		synctest.Test(t, func(t *testing.T) {
			inner := newRecorder(t, slow)
			inner.Store = withCalls{inner.Store, calls}
			st, limit := newStore(t, inner, coalesce.Options{}), bind(t, slidegate.PerHour(100))
			for i := range 10 {
				send(t.Context(), st, limit, fmt.Sprint(i))
			}
			expectIdle(t, st)
			if inner.most != want {
				t.Errorf("Calls is %d: got %d concurrent calls, want %d", calls, inner.most, want)
			}
		})
	}
}

type withCalls struct {
	store.Store
	calls int
}

func (w withCalls) Traits() store.Traits {
	return store.Traits{Name: "calls", RoundTrips: 1, MaxCharges: 8, Calls: w.calls}
}

// Random requests with few keys, some of several addresses and some of callers that leave: no two calls under way ever have
// an address in common, every address is decided in order of arrival, and nothing is left behind.
func TestNoAddressTwiceInFlight(t *testing.T) {
	for _, opts := range []coalesce.Options{{InFlight: 1}, {InFlight: 2, MaxBatch: 3}, {InFlight: 4}, {InFlight: 8, MaxBatch: 2, Gather: true}} {
		opts.Timeout = time.Minute
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			watched := &exclusive{Store: newMemory(t, nil), flying: map[string]bool{}}
			st, limit := newStore(t, watched, opts), bind(t, slidegate.PerHour(1))
			var all sync.WaitGroup
			for worker := range 16 {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(worker), 7))
					for range 300 {
						ctx, cancel := context.WithCancel(t.Context())
						if random.IntN(4) == 0 {
							go func() { runtime.Gosched(); cancel() }()
						}
						batch := make([]store.Request, 1+random.IntN(2))
						for i := range batch {
							var charges []store.Charge
							for _, k := range random.Perm(6)[:1+random.IntN(3)] {
								charges = append(charges, store.Charge{Limit: limit, Key: fmt.Sprint(k), Cost: 1})
							}
							batch[i] = request(rule.Peek, charges...)
							batch[i].Group = []string{"", "g"}[random.IntN(2)]
						}
						_ = st.Apply(ctx, batch)
						cancel()
					}
				})
			}
			all.Wait()
			for st.Slots() > 0 { // calls whose callers have all left may still be under way
				runtime.Gosched()
			}
			if watched.twice > 0 || watched.calls == 0 {
				t.Errorf("%d of %d calls had an address that was in flight", watched.twice, watched.calls)
			}
			if st.Waiting() != 0 || st.Lines() != 0 {
				t.Errorf("%d requests and %d lines are left", st.Waiting(), st.Lines())
			}
		})
	}
}

// exclusive counts calls with an address that another call under way has.
type exclusive struct {
	store.Store
	mu           sync.Mutex
	flying       map[string]bool
	calls, twice int
}

func (x *exclusive) Apply(ctx context.Context, batch []store.Request) error {
	own := map[string]bool{}
	for i := range batch {
		for _, c := range batch[i].Charges {
			own[batch[i].Group+"/"+c.Key] = true
		}
	}
	x.mu.Lock()
	x.calls++
	for address := range own {
		if x.flying[address] {
			x.twice++
		}
		x.flying[address] = true
	}
	x.mu.Unlock()
	for range 5 {
		runtime.Gosched()
	}
	err := x.Store.Apply(ctx, batch)
	x.mu.Lock()
	for address := range own {
		delete(x.flying, address)
	}
	x.mu.Unlock()
	return err
}
