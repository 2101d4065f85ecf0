package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/proxy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
)

// heldSettings returns a policy whose slots do not expire during a test: a free slot has been released.
func heldSettings(slots int) settings {
	return settings{policies: []config.Policy{policy("held", "", fmt.Sprintf("%d in-flight ttl=1h", slots))}}
}

// freeSlots returns how many slots this machine has left.
func (r *rig) freeSlots() int64 {
	r.t.Helper()
	v, err := r.gate.Do(context.Background(), gate.Peek, gate.Request{Policy: "held", Key: "127.0.0.1", Cost: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	return v.Decision.Remaining
}

// unrulyApplication is an application that ends requests in every way, chosen by their path.
func unrulyApplication(t *testing.T) string {
	return application(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/late":
			<-r.Context().Done()
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/half":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		case "/stream":
			for i := 0; r.Context().Err() == nil && i < 50; i++ {
				_, _ = io.WriteString(w, "data\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Millisecond):
				}
			}
		default:
			_, _ = io.Copy(w, r.Body)
		}
	})
}

// TestNoSlotIsLost: after a thousand requests that end in every way, at random, no slot is held; and the requests in progress never
// exceed the limit.
func TestNoSlotIsLost(t *testing.T) {
	const slots, requests = 16, 1000
	s := heldSettings(slots)
	s.opts.Timeout = 20 * time.Millisecond // /late then gets 504
	r := newRig(t, unrulyApplication(t), s)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	statuses := map[int]int{}
	var workers sync.WaitGroup
	work := make(chan func())
	for range 16 {
		workers.Go(func() {
			for one := range work {
				one()
			}
		})
	}
	paths := []string{"/ok", "/late", "/cut", "/half", "/stream"}
	for range requests {
		path, patience := paths[random.IntN(len(paths))], time.Duration(random.IntN(40_000))*time.Microsecond
		work <- func() {
			status := r.sendBriefly(path, patience)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		}
	}
	close(work)
	workers.Wait()
	t.Logf("responses by status, 0 for aborted ones: %v", statuses)
	for _, status := range []int{0, 200, 502, 504} {
		if statuses[status] == 0 {
			t.Errorf("no request ended with %d", status)
		}
	}
	testkit.Eventually(t, "all slots are free", func() bool { return r.freeSlots() == slots })
}

// sendBriefly sends a request and disconnects when patience ends. It returns the status, or 0 if there was no response.
func (r *rig) sendBriefly(path string, patience time.Duration) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.at+path, nil)
	if err != nil {
		r.t.Error(err)
		return 0
	}
	got, err := r.http.Do(request)
	if err != nil {
		return 0
	}
	defer got.Body.Close()
	_, _ = io.Copy(io.Discard, got.Body) // it may be aborted
	return got.StatusCode
}

// TestSlotsOfRequestsUnderWay: there are at most as many concurrent requests as slots, and a refusal has a Retry-After.
func TestSlotsOfRequestsUnderWay(t *testing.T) {
	began, end := make(chan bool, 2), make(chan bool)
	to := application(t, func(http.ResponseWriter, *http.Request) {
		began <- true
		<-end
	})
	r := newRig(t, to, heldSettings(2))
	answers := make(chan string, 2)
	for range 2 {
		go func() { answers <- strconv.Itoa(r.sendBriefly("/", patience)) }()
		receive(t, "the request runs", began)
	}
	if got := r.send("GET", "/"); got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
		t.Errorf("a third of 2: got %s %v, want 429 and Retry-After", got.Status, got.Header)
	}
	close(end)
	for range 2 {
		if got := receive(t, "the response", answers); got != "200" {
			t.Errorf("got %s, want 200", got)
		}
	}
	if got := r.send("GET", "/"); got.StatusCode != http.StatusOK { // immediately: the slot is free when the client has its response
		t.Errorf("after the others: got %s, want 200", got.Status)
	}
}

// TestWebsocketHoldsItsSlot: a websocket holds its slot until it is closed, by the client or by the shutdown of the proxy.
func TestWebsocketHoldsItsSlot(t *testing.T) {
	s := heldSettings(2)
	s.serve.drain = 50 * time.Millisecond
	r := newRig(t, application(t, chat(nil)), s)
	conn, reader := r.socket("127.0.0.1")
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if b, err := reader.ReadByte(); err != nil || b != 'x' || r.freeSlots() != 1 {
		t.Fatalf("got %q, %v and %d slots, want x and 1", b, err, r.freeSlots())
	}
	conn.Close()
	testkit.Eventually(t, "the slot is free", func() bool { return r.freeSlots() == 2 })
	r.socket("127.0.0.1")
	if got := r.freeSlots(); got != 1 {
		t.Fatalf("%d slots are free, want 1", got)
	}
	memory := r.gate // still usable after the shutdown
	r.stop()
	v, err := memory.Do(context.Background(), gate.Peek, gate.Request{Policy: "held", Key: "127.0.0.1", Cost: 1})
	if err != nil || v.Decision.Remaining != 2 {
		t.Errorf("after the shutdown of the proxy: got %+v, %v; want 2 slots", v, err)
	}
}

// TestLongRequestsKeepTheirSlot: a stream that lasts ten times the time to live holds its slot all the time.
func TestLongRequestsKeepTheirSlot(t *testing.T) {
	const ttl = time.Second // long enough for a renewal on a busy machine to be in time: it has two thirds of it
	end := make(chan bool)
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	s := settings{policies: []config.Policy{policy("held", "", "1 in-flight ttl="+ttl.String())}, store: realMemory(t), opts: proxy.Options{}}
	r := newRig(t, to, s)
	begun := time.Now()
	got, err := r.http.Get("http://" + r.at + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { got.Body.Close() })
	for time.Since(begun) < 3*ttl {
		refused, err := r.http.Get("http://" + r.at + "/")
		if err != nil {
			t.Fatal(err)
		}
		if refused.Body.Close(); refused.StatusCode != http.StatusTooManyRequests { // an admitted request would have an endless body
			t.Fatalf("after %v: got %s, want 429", time.Since(begun), refused.Status)
		}
	}
	close(end)
	if _, err := io.ReadAll(got.Body); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the slot is free", func() bool { return r.freeSlots() == 1 })
}

// TestRequestsHoldUnits: requests that outlast the window hold their units while they run, and are charged when they have ended.
func TestRequestsHoldUnits(t *testing.T) {
	ends := make(chan struct{})
	arrived := make(chan struct{}, 2)
	held := policy("held", "", "10/1s hold=30s")
	held.Cost, _ = fields.ParseCost("5")
	r := newRig(t, application(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-ends
	}), settings{policies: []config.Policy{held}})
	statuses := make(chan int, 2)
	for range 2 {
		go func() { statuses <- r.send("GET", "/").StatusCode }()
		<-arrived
	}
	for range 3 { // three windows later
		r.clock.Advance(1_000_000)
		if got := r.send("GET", "/"); got.StatusCode != http.StatusTooManyRequests {
			t.Errorf("while 10 of 10 are held: got %s, want 429", got.Status)
		}
	}
	close(ends)
	for range 2 {
		if got := <-statuses; got != http.StatusOK {
			t.Errorf("a request that held: got %d, want 200", got)
		}
	}
	testkit.Eventually(t, "both are charged", func() bool { return r.gate.Drain(context.Background()) == nil && r.freeSlots() == 0 })
	r.clock.Advance(1_000_000)
	if got := r.freeSlots(); got != 10 {
		t.Errorf("a window after they ended: got %d left, want 10", got)
	}
}
