package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/store"
)

// longLog is a limit of which a store keeps every unit, each of the 10,000.
var longLog = slidegate.Limit{Name: "long", Algorithm: slidegate.SlidingLog, Quota: 10_000, Window: time.Hour}

// A call is bounded by its work: five logs of 10,000 units are read in one call, but 200 requests for the same log share a call,
// because it is read once, and 256 for short logs.
func TestWorkOfACall(t *testing.T) {
	short := slidegate.Limit{Algorithm: slidegate.SlidingLog, Quota: 100, Window: time.Hour}
	for _, c := range []struct {
		limit slidegate.Limit
		keys  int
		most  int // requests in a call
	}{{longLog, 300, 5}, {longLog, 1, 256 - 49}, {short, 300, 256}} {
		synctest.Test(t, func(t *testing.T) {
			inner := newRecorder(t, slow)
			st, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, c.limit)
			for i := range 300 {
				send(t.Context(), st, limit, fmt.Sprint("key-", i%c.keys))
			}
			expectIdle(t, st)
			most := 0
			for _, keys := range inner.seen() {
				most = max(most, len(keys))
			}
			if most != c.most {
				t.Errorf("%s with %d keys: up to %d requests in a call, want %d", limit.Label(), c.keys, most, c.most)
			}
		})
	}
}

// heavyCalls counts the calls under way that have a log of 10,000 units.
type heavyCalls struct {
	limit     *store.Limit
	lasts     time.Duration
	mu        sync.Mutex
	now, most int
}

func (h *heavyCalls) wait(_ context.Context, batch []store.Request) error {
	if batch[0].Charges[0].Limit != h.limit {
		return slow(context.Background(), nil)
	}
	h.add(1)
	testkit.Delay(h.lasts)
	h.add(-1)
	return nil
}

// add adds to the calls under way, and returns the most there ever were.
func (h *heavyCalls) add(n int) (most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += n
	h.most = max(h.most, h.now)
	return h.most
}

// While many wait for calls that are much work, alone or shared, another request is answered in the next call: half of the
// slots are for such requests.
func TestHeavyCallsLeaveSlots(t *testing.T) {
	for _, inFlight := range []int{1, 2, 4} {
		synctest.Test(t, func(t *testing.T) {
			heavy := &heavyCalls{limit: bind(t, longLog), lasts: 3 * time.Millisecond}
			inner := newRecorder(t, heavy.wait)
			st, light := newStore(t, inner, coalesce.Options{InFlight: inFlight}), bind(t, slidegate.PerHour(100))
			for i := range 100 {
				send(t.Context(), st, heavy.limit, fmt.Sprint("key-", i))
			}
			start := time.Now()
			send(t.Context(), st, light, "other").expect(t, 99)
			if took, most := time.Since(start), max(1, inFlight/2); took > 8*time.Millisecond || heavy.add(0) != most {
				t.Errorf("InFlight %d: it took %v beside %d calls with much work, want %d", inFlight, took, heavy.add(0), most)
			}
			expectIdle(t, st)
			if inner.used(t, heavy.limit, "key-99") != 1 {
				t.Error("the last request with much work was not decided")
			}
		})
	}
}

// Both kinds of calls go on while there are many requests of both.
func TestHeavyAndLightInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy := &heavyCalls{limit: bind(t, longLog), lasts: 3 * time.Millisecond}
		st := newStore(t, newRecorder(t, heavy.wait), coalesce.Options{InFlight: 1, MaxBatch: 1})
		light := bind(t, slidegate.PerHour(100))
		var all [2][]*pendingRequest
		for i := range 50 {
			all[0] = append(all[0], send(t.Context(), st, light, fmt.Sprint("light-", i)))
			all[1] = append(all[1], send(t.Context(), st, heavy.limit, fmt.Sprint("heavy-", i)))
		}
		testkit.Delay(42 * time.Millisecond) // ten of each
		synctest.Wait()
		for kind := range all {
			done := 0
			for _, a := range all[kind] {
				if a.isDone() {
					done++
				}
			}
			if done < 9 || done > 12 {
				t.Errorf("kind %d: %d were decided, want about 10", kind, done)
			}
		}
		expectIdle(t, st)
	})
}

// A row that is locked, of a log that is much work, does not hold up others.
func TestHeavyCallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &lockable{}
		unlock := rows.lock("locked")
		st, limit := newStore(t, newRecorder(t, rows.wait), coalesce.Options{InFlight: 2}), bind(t, longLog)
		locked := send(t.Context(), st, limit, "locked")
		start := time.Now()
		send(t.Context(), st, limit, "other").expect(t, 9_999)
		if took := time.Since(start); took > 20*time.Millisecond {
			t.Errorf("another log took %v", took)
		}
		unlock()
		locked.expect(t, 9_999)
	})
}

// Large batches leave an eighth of the queue, so that there is space for single requests.
func TestBatchesLeaveSpaceInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, limit := newStore(t, newRecorder(t, slow), coalesce.Options{InFlight: 1, MaxQueue: 100}), bind(t, slidegate.PerHour(100))
		send(t.Context(), st, limit, "first")
		full := 0
		for i := range 10 {
			batch := make([]store.Request, 20)
			for k := range batch {
				batch[k] = take(limit, fmt.Sprint(i, k), 1)
			}
			go func() {
				if err := st.Apply(t.Context(), batch); errors.Is(err, coalesce.ErrFull) {
					full++ // one goroutine at a time, because of the Wait
				} else if err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		if full != 6 || st.Waiting() != 80 {
			t.Errorf("%d of 10 batches found the queue full, and %d requests wait; want 6 and 80", full, st.Waiting())
		}
		for i := range 20 {
			if a := send(t.Context(), st, limit, fmt.Sprint("single-", i)); a.isDone() {
				t.Errorf("single request %d did not wait: %v", i, a.err)
			}
		}
		expectIdle(t, st)
	})
}
