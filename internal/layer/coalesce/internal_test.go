package coalesce

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func newTestStore(t testing.TB, batchOnly bool, opts Options) (*Store, *store.Limit) {
	t.Helper()
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inner := store.Store(memory)
	if batchOnly {
		inner = struct{ store.Store }{memory}
	}
	store := New(inner, opts)
	limit, err := adapter.Bind("", slidegate.PerHour(1_000_000))
	if err != nil {
		t.Fatal(err)
	}
	return store, limit
}

// A lone caller allocates nothing, whether or not the store is a SingleTaker.
func TestLoneCallerDoesNotAllocate(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector empties pools")
	}
	for _, batchOnly := range []bool{false, true} {
		st, limit := newTestStore(t, batchOnly, Options{})
		ctx := t.Context()
		batch := []store.Request{{
			Charges: []store.Charge{{Limit: limit, Key: "k", Cost: 1}}, Answers: make([]rule.Answer, 1),
		}}
		if n := testing.AllocsPerRun(100, func() { _ = st.Apply(ctx, batch) }); n != 0 {
			t.Errorf("Apply allocates %v times", n)
		}
		if n := testing.AllocsPerRun(100, func() { _, _, _, _, _, _, _ = st.TakeSingle(ctx, limit, "k", 1) }); n != 0 {
			t.Errorf("TakeSingle allocates %v times, batch only is %v", n, batchOnly)
		}
	}
}

// Waiting requests allocate nothing each: a shared call allocates one context, whatever the number of its callers.
func TestWaitingDoesNotAllocate(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector empties pools")
	}
	const callers, rounds = 64, 50
	st, limit := newTestStore(t, false, Options{InFlight: 1, Timeout: time.Minute})
	start, end := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			batch := []store.Request{{Charges: make([]store.Charge, 3), Answers: make([]rule.Answer, 3)}}
			for j := range batch[0].Charges {
				batch[0].Charges[j] = store.Charge{Limit: limit, Key: strings.Repeat("k", j), Cost: 1}
			}
			for range start {
				if i%2 == 0 {
					_ = st.Apply(context.Background(), batch)
				} else {
					_, _, _, _, _, _, _ = st.TakeSingle(context.Background(), limit, "k", 1)
				}
				end <- struct{}{}
			}
		})
	}
	round := func() {
		slot := st.TakeSlot()
		for range callers {
			start <- struct{}{}
		}
		for st.Waiting() < callers {
			runtime.Gosched()
		}
		st.end(context.Background(), slot)
		for range callers {
			<-end
		}
	}
	perRound := testing.AllocsPerRun(rounds, round) // it also runs one round before
	close(start)
	all.Wait()
	if perRound > callers/4 {
		t.Errorf("a shared call of %d requests allocates %v times", callers, perRound)
	}
}

// A slot that becomes free while a request is copied for the queue is taken: no other call would send the request.
func TestSlotFreedDuringCopy(t *testing.T) {
	store, limit := newTestStore(t, false, Options{InFlight: 1})
	slot := store.begin([]uint64{1}, false)
	if store.begin([]uint64{2}, false) != nil {
		t.Fatal("got two slots, want one")
	}
	e := store.entries.Get().(*entry)
	e.copyOne(limit, "k", 1)
	store.end(t.Context(), slot)
	slot, err := store.join(t.Context(), e)
	if free := slot != nil; !free || err != nil || store.Waiting() != 0 || store.Slots() != 1 {
		t.Errorf("got free %v, %v, %d waiting, %d slots taken, want true, no error, 0 and 1", free, err, store.Waiting(), store.Slots())
	}
}

// Recycled memory contains nothing of the last caller, and nothing too large is kept.
func TestKeepsNothingOfACaller(t *testing.T) {
	st, limit := newTestStore(t, false, Options{InFlight: 1})
	var put []*entry
	st.entries.New = func() any {
		e := &entry{done: make(chan struct{}, 1)}
		put = append(put, e)
		return e
	}
	batch := make([]store.Request, 2)
	for i := range batch {
		batch[i] = store.Request{
			Group: "group", Charges: []store.Charge{{Limit: limit, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1),
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), ended} {
		stop := st.Crowd()
		_ = st.Apply(ctx, batch)
		stop()
		stop = st.Crowd()
		_, _, _, _, _, _, _ = st.TakeSingle(ctx, limit, "key", 1)
		stop()
	}
	stop := st.Crowd()
	_ = st.Apply(t.Context(), make([]store.Request, keptRequests+1)) // without charges: only errors
	stop()
	if e := st.entries.Get().(*entry); cap(e.requests) > keptRequests {
		t.Errorf("memory for %d requests was kept", cap(e.requests))
	}
	put = slices.DeleteFunc(put, func(e *entry) bool { return cap(e.requests) > keptRequests })
	if len(put) == 0 {
		t.Fatal("nothing was kept")
	}
	for _, e := range put {
		for _, r := range e.requests[:cap(e.requests)] {
			if r.Group != "" || r.Charges != nil || r.Answers != nil || r.Err != nil {
				t.Errorf("a request was kept: %+v, want it cleared", r)
			}
		}
		for _, c := range e.charges[:cap(e.charges)] {
			if c != (store.Charge{}) {
				t.Errorf("a charge was kept: %+v", c)
			}
		}
		if e.call != nil || e.left || e.answered || e.panicked != nil || e.next != nil || e.previous != nil || len(e.done) > 0 {
			t.Errorf("an entry was kept as it was: %+v, want it cleared", e)
		}
	}
}

// Requests too many for one call go in two concurrent calls if two slots are free.
func TestCrowdTakesFreeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &meetingStore{want: 2, met: make(chan struct{})}
		store, limit := newTestStore(t, false, Options{InFlight: 2, MaxBatch: 1, Timeout: time.Minute})
		inner.Store, store.inner = store.inner, inner
		entries := make([]*entry, 2)
		slot := store.TakeSlot()
		store.mu.Lock()
		for i := range entries {
			entries[i] = store.entries.Get().(*entry)
			entries[i].copyOne(limit, fmt.Sprint("k", i), 1)
			store.lineUp(entries[i])
		}
		store.mu.Unlock()
		go store.runCalls(slot)
		for _, e := range entries {
			if err := store.await(t.Context(), e); err != nil || e.requests[0].Err != nil {
				t.Errorf("got %v, request %v, want no errors", err, e.requests[0].Err)
			}
		}
	})
}

// meetingStore is a store whose calls wait for one another.
type meetingStore struct {
	store.Store
	want int
	met  chan struct{}
	mu   sync.Mutex
	came int
}

func (m *meetingStore) Apply(ctx context.Context, batch []store.Request) error {
	m.mu.Lock()
	if m.came++; m.came == m.want {
		close(m.met)
	}
	m.mu.Unlock()
	select {
	case <-m.met:
		return m.Store.Apply(ctx, batch)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// No request overtakes those that did not fit into a call, although a slot is free.
func TestNoRequestOvertakes(t *testing.T) {
	st, _ := newTestStore(t, false, Options{InFlight: 4, MaxBatch: 2, Gather: true})
	slot := st.TakeSlot()
	st.mu.Lock()
	for range 2 {
		e := st.entries.Get().(*entry)
		e.copyBatch(make([]store.Request, 2)) // fills a call
		st.lineUp(e)
	}
	st.opts.InFlight = 1 // otherwise another call would be started for the second
	st.mu.Unlock()
	c := st.next(slot)
	st.opts.InFlight = 4
	if alone := st.begin([]uint64{1}, false) != nil; alone || len(c.entries) != 1 || st.Waiting() != 2 {
		t.Errorf("got alone %v, %d sent, %d waiting", alone, len(c.entries), st.Waiting())
	}
	c.cancel()
}

// A request that finds the queue full is sent alone if a slot is free.
func TestFullQueueAndFreeSlot(t *testing.T) {
	store, limit := newTestStore(t, false, Options{InFlight: 2, MaxQueue: 1, Gather: true})
	store.TakeSlot() // for the call that is about to collect the waiting requests
	store.mu.Lock()
	store.crowded = true
	e := store.entries.Get().(*entry)
	e.copyOne(limit, "k", 1)
	store.lineUp(e)
	store.mu.Unlock()
	same, other := store.entries.Get().(*entry), store.entries.Get().(*entry)
	same.copyOne(limit, "k", 1)
	if alone, err := store.join(t.Context(), same); alone != nil || !errors.Is(err, ErrFull) {
		t.Errorf("an address with a line: alone %v, %v", alone, err)
	}
	other.copyOne(limit, "other", 1)
	if alone, err := store.join(t.Context(), other); alone == nil || err != nil || store.Slots() != 2 {
		t.Errorf("alone %v, %v, %d slots are taken", alone, err, store.Slots())
	}
	other.copyOne(limit, "third", 1)
	if alone, err := store.join(t.Context(), other); alone != nil || !errors.Is(err, ErrFull) {
		t.Errorf("no slot is free: alone %v, %v", alone, err)
	}
}

// Addresses with the same hash wait for one another, and each gets its own answer.
func TestCollisionOnlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, limit := newTestStore(t, false, Options{InFlight: 4})
		slot := st.begin([]uint64{1}, false)
		var entries []*entry
		for i := range 3 {
			e := st.entries.Get().(*entry)
			e.copyOne(limit, fmt.Sprint("key-", i), int64(i+1))
			e.addresses[0] = 1
			if alone, err := st.join(t.Context(), e); alone != nil || err != nil {
				t.Fatalf("got %v, %v, want it to wait", alone, err)
			}
			entries = append(entries, e)
		}
		if synctest.Wait(); st.Waiting() != 3 {
			t.Errorf("%d requests wait, want 3", st.Waiting())
		}
		st.end(t.Context(), slot)
		for i, e := range entries {
			err := st.await(t.Context(), e)
			if used := limit.Rule().Quota - e.answers[0].Remaining; err != nil || e.requests[0].Err != nil || used != int64(i+1) {
				t.Errorf("request %d: got %v, %d used", i, err, used)
			}
		}
	})
}
