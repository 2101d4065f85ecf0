package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

const ttl = 3 * time.Second

// runningPlay is a play in virtual time with a limit of one slot, whose requests last until the test ends them.
type runningPlay struct {
	*play
	hookStore *hookStore
	mu        sync.Mutex
	fails     map[rule.Op]error // the store's errors by op; if lost is set, it fails after it has executed the request
	lost      bool
	requests  map[rule.Op]int
}

// newRunningPlay returns a running play. The handler of a request for /stream ends when it receives from done.
func newRunningPlay(t *testing.T, trips int, done <-chan bool) *runningPlay {
	r := &runningPlay{fails: map[rule.Op]error{}, requests: map[rule.Op]int{}}
	memory := testkit.Must(memstore.New(memstore.Options{Now: func() rule.Micros { return rule.Micros(time.Now().UnixMicro()) }}))(t)
	r.hookStore = &hookStore{store: memory, trips: trips}
	r.hookStore.apply = func(_ context.Context, q *store.Request) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests[q.Op]++
		if err := r.fails[q.Op]; err != nil {
			if r.lost {
				_ = memory.Apply(context.Background(), []store.Request{*q})
			}
			return err
		}
		return nil
	}
	limit := slidegate.Slots(1, ttl)
	limit.Name = "slots"
	r.play = (&play{t: t}).over(r.hookStore, Options{Timeout: -1},
		func(_ http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/stream" {
				<-done
			}
		}, limit)
	return r
}

// fail makes an op fail with err, or succeed if err is nil.
func (r *runningPlay) fail(op rule.Op, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails[op] = err
}

func (r *runningPlay) count(op rule.Op) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[op]
}

// begin starts a request that lasts.
func (r *runningPlay) begin() {
	go r.do(httptest.NewRequest("GET", "/stream", nil))
	synctest.Wait()
}

// A request that lasts ten times the time to live keeps its slot, by a renewal every third of it.
func TestLongRequestsKeepTheirSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan bool)
		r := newRunningPlay(t, 0, done)
		r.begin()
		for range 100 {
			testkit.Pass(ttl / 10)
			if w := r.from("192.0.2.1"); w.Code != 429 || w.Header().Get("Retry-After") == "" {
				t.Fatalf("got status %d with %v beside a request that holds the only slot, want 429 with a Retry-After", w.Code, w.Header())
			}
		}
		synctest.Wait() // for the renewal that is due now
		if got := r.count(rule.Renew); got != 30 {
			t.Errorf("got %d renewals in ten times the time to live, want 30", got)
		}
		done <- true
		synctest.Wait()
		r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 200, 200)
		testkit.Pass(10 * ttl)
		if got := r.count(rule.Renew); got != 30 {
			t.Errorf("got %d renewals after the request has ended, want no more than 30", got)
		}
	})
}

// A failed renewal is retried in time, and reported once.
func TestRenewalsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan bool)
		r := newRunningPlay(t, 0, done)
		r.begin()
		for range 5 {
			r.fail(rule.Renew, errBroken)
			testkit.Pass(ttl - 400*time.Millisecond) // since the slot was taken or renewed
			r.fail(rule.Renew, nil)
			testkit.Pass(150 * time.Millisecond) // retries are a twelfth of the time to live apart
			synctest.Wait()
			if w := r.from("192.0.2.1"); w.Code != 429 {
				t.Fatalf("got status %d, want 429: the slot is still held", w.Code)
			}
		}
		done <- true
		synctest.Wait()
		failed := 0
		for _, e := range r.seen() {
			if errors.Is(e.Err, policy.ErrSlotLost) {
				t.Errorf("got event %+v, want no slot lost", e)
			}
			if errors.Is(e.Err, errBroken) {
				failed++
			}
		}
		if failed != 5 {
			t.Errorf("got %d events of failed renewals, want 5", failed)
		}
	})
}

// A slot that was lost during an outage is taken again if one is free, and that is reported; if none is free, the request
// continues and tries again.
func TestLostSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan bool)
		r := newRunningPlay(t, 0, done)
		r.begin()
		r.fail(rule.Renew, errBroken)
		testkit.Pass(2 * ttl)
		r.begin() // another request takes the slot
		r.fail(rule.Renew, nil)
		testkit.Pass(2 * ttl)
		lost := r.lostSlots()
		if len(lost) != 1 || lost[0].Decision.Allowed || lost[0].Policy != "" || len(lost[0].Limits) != 1 || lost[0].Limits[0].Name != "slots" {
			t.Errorf("got events %+v, want one lost slot", lost)
		}
		done <- true // one of them has the slot
		done <- true
		synctest.Wait()
		r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 200)

		r.seen()
		r.begin()
		r.fail(rule.Renew, errBroken)
		testkit.Pass(2 * ttl)
		r.fail(rule.Renew, nil)
		testkit.Pass(ttl)
		if lost = r.lostSlots(); len(lost) != 1 || !lost[0].Decision.Allowed {
			t.Errorf("got events %+v, want one slot lost and taken again", lost)
		}
		r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 429)
		done <- true
		synctest.Wait()
		r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 200)
	})
}

// lostSlots returns the events of lost slots.
func (r *runningPlay) lostSlots() (lost []Event) {
	for _, e := range r.seen() {
		if errors.Is(e.Err, policy.ErrSlotLost) {
			lost = append(lost, e)
		}
	}
	return lost
}

// A release whose outcome is unknown is retried a few times, and reported if it stays unknown.
func TestReleasesAreRetried(t *testing.T) {
	for _, lost := range []bool{false, true} { // whether the store executed the release that failed
		synctest.Test(t, func(t *testing.T) {
			r := newRunningPlay(t, 1, nil)
			r.lost = lost
			r.fail(rule.Settle, errBroken)
			r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 200)
			testkit.Pass(time.Second)
			r.fail(rule.Settle, nil)
			if err := r.limits.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if last := r.last(); last.Err != nil || r.count(rule.Settle) != 4 {
				t.Errorf("lost %v: got %d calls to the store, and the last event %+v; want 4 and no error", lost, r.count(rule.Settle), last)
			}
			r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 200)
			if err := r.limits.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}

			r.fail(rule.Settle, errBroken)
			r.from("192.0.2.1")
			if err := r.limits.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if last := r.last(); !errors.Is(last.Err, errBroken) || r.count(rule.Settle) != 4+1+4 {
				t.Errorf("lost %v: got %d calls to the store, and the last event %+v; want 9 and its error", lost, r.count(rule.Settle), last)
			}
		})
	}
}

// The response does not wait for the release, Drain does, and the client's next request finds the slot free.
func TestResponsesDoNotWaitForReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunningPlay(t, 1, nil)
		release := make(chan bool)
		apply := r.hookStore.apply
		r.hookStore.apply = func(ctx context.Context, q *store.Request) error {
			if q.Op == rule.Settle {
				<-release
			}
			return apply(ctx, q)
		}
		r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 200) // no slot is released so far
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.limits.Drain(ended); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "httplimit: ") {
			t.Errorf("Drain returned %v during a release, want context.Canceled, with the package", err)
		}
		next := make(chan int)
		go func() { next <- r.from("192.0.2.1").Code }()
		synctest.Wait()
		if got := r.count(rule.Take); got != 2 {
			t.Fatalf("got %d requests for slots, want 2", got)
		}
		release <- true
		if status := <-next; status != 200 {
			t.Errorf("the next request: got %d, want 200", status)
		}
		begun := time.Now()
		if status := r.from("192.0.2.1").Code; status != 429 || time.Since(begun) != 200*time.Millisecond {
			t.Errorf("a request while the slot is not released: got %d after %v, want 429 after 200ms", status, time.Since(begun))
		}
		go func() { release <- true }()
		if err := r.limits.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if got := r.count(rule.Settle); got != 2 {
			t.Errorf("got %d releases after Drain, want 2", got)
		}
	})
}

// A refusal does not wait for releases that the store does not execute.
func TestRefusalsDoNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunningPlay(t, 1, nil)
		r.fail(rule.Settle, errBroken)
		r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 200)
		begun := time.Now()
		r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 429)
		if took := time.Since(begun); took > time.Second/2 {
			t.Errorf("got a refusal after %v, want less than half a second", took)
		}
		if err := r.limits.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A client that disconnects during the call to the store may have got a slot, which is then released.
func TestSlotsOfUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunningPlay(t, 1, nil)
		r.lost = true
		r.fail(rule.Take, errBroken)
		r.from("192.0.2.1")
		r.fail(rule.Take, nil)
		if err := r.limits.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.want(func() *httptest.ResponseRecorder { return r.from("192.0.2.1") }, 200)
		if err := r.limits.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A websocket holds its slot for ten times the time to live, on a real connection: the store's clock advances by a third of it
// with each renewal.
func TestWebsocketsKeepTheirSlot(t *testing.T) {
	const ttl = 60 * time.Millisecond
	var clock storetest.Clock
	clock.Set(noon)
	memory := testkit.Must(memstore.New(memstore.Options{Now: clock.Now}))(t)
	var renewals atomic.Int64
	enough := make(chan struct{})
	watched := &hookStore{store: memory}
	watched.apply = func(_ context.Context, q *store.Request) error {
		if q.Op == rule.Renew {
			clock.Advance(rule.Micros(ttl.Microseconds()) / 3)
			if renewals.Add(1) == 30 {
				close(enough)
			}
		}
		return nil
	}
	limiter := testkit.Must(slidegate.New(watched, slidegate.Slots(1, ttl)))(t)
	var lost atomic.Int64
	limits := testkit.Must(New(limiter, Options{
		Policies: []Policy{{Key: Global()}},
		OnDecision: func(_ *http.Request, e Event) {
			if e.Err != nil {
				lost.Add(1)
			}
		},
	}))(t)
	h := &heldServer{play: &play{t: t, limits: limits}}
	h.server = httptest.NewServer(h.counted(limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { h.hijack(t, w, false) }))))
	defer h.server.Close()
	conn := h.dial(t)
	<-enough
	if now := clock.Now() - noon; now < 10*rule.Micros(ttl.Microseconds()) {
		t.Errorf("the store's clock advanced by %v, want ten times the time to live", now.Duration())
	}
	response, err := http.Get(h.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response.StatusCode != 429 || lost.Load() > 0 {
		t.Errorf("got status %d beside the websocket with %d errors, want 429 and none", response.StatusCode, lost.Load())
	}
	conn.Close()
	h.conns.Wait()
	if d := testkit.Must(limiter.Peek(t.Context(), "", 1))(t); d.Remaining != 1 {
		t.Errorf("got %d free slots when the websocket is closed, want 1", d.Remaining)
	}
}

// seen returns the events so far, and clears them.
func (r *runningPlay) seen() []Event {
	r.play.mu.Lock()
	defer r.play.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}
