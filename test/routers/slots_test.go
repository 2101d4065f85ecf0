package routers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// slotLimit is a middleware that admits a number of concurrent requests.
type slotLimit struct {
	*httplimit.Middleware
	released chan struct{} // holds a value if slots were released since the last receive
}

func inFlight(t *testing.T, n int64) slotLimit {
	t.Helper()
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan struct{}, 1)
	policy := httplimit.Policy{Name: "slots", Limits: []slidegate.Limit{slidegate.Slots(n, time.Minute)}, Key: httplimit.Global()}
	return slotLimit{newLimitsOver(t, settleReporter{memory, released}, httplimit.Options{Policies: []httplimit.Policy{policy}}), released}
}

// settleReporter is a store that reports settlements, since a server does not report when it has written a response.
type settleReporter struct {
	store.Store
	released chan struct{}
}

func (r settleReporter) Apply(ctx context.Context, batch []store.Request) error {
	err := r.Store.Apply(ctx, batch)
	if slices.ContainsFunc(batch, func(one store.Request) bool { return one.Op == rule.Settle }) {
		select {
		case r.released <- struct{}{}:
		default:
		}
	}
	return err
}

// awaitSlots waits until want slots are free.
func (s slotLimit) awaitSlots(t *testing.T, want int64) {
	t.Helper()
	// fasthttp drops a request whose client is gone before its connection was taken over, and does not end it: its slot is
	// released when it is garbage collected.
	collect := time.NewTicker(time.Millisecond)
	defer collect.Stop()
	tooLong := time.After(10 * time.Second)
	for {
		event, err := s.Peek(context.Background(), "slots", "")
		if err != nil {
			t.Fatal(err)
		}
		if event.Decision.Remaining == want {
			return
		}
		select {
		case <-s.released:
		case <-collect.C:
			runtime.GC()
		case <-tooLong:
			t.Fatalf("got %d free slots, want %d", event.Decision.Remaining, want)
		}
	}
}

// A request holds its slot until its response is sent, even if the router sends a stream after the handler has returned.
func TestStreamsHoldTheirSlot(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		limits, s := inFlight(t, 1), newSite(t)
		address := router.serve(t, limits.Middleware, s)
		answer, err := http.Get("http://" + address + "/stream")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		lines := bufio.NewReader(answer.Body)
		if one, err := lines.ReadString('\n'); one != "one\n" || err != nil {
			t.Fatalf("first line: got %q, %v", one, err)
		}
		if got := do(t, "GET", "http://"+address+"/json"); got.StatusCode != http.StatusTooManyRequests {
			t.Errorf("beside the stream: got %d, want 429", got.StatusCode)
		}
		s.proceed <- struct{}{}
		if rest, err := io.ReadAll(lines); string(rest) != "two\n" || err != nil {
			t.Errorf("rest: got %q, %v", rest, err)
		}
		limits.awaitSlots(t, 1)
	})
}

// A hijacked connection holds its slot until it is closed.
func TestUpgradesHoldTheirSlot(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		limits := inFlight(t, 1)
		address := router.serve(t, limits.Middleware, newSite(t))
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /upgrade HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
		reader := bufio.NewReader(conn)
		answer, err := http.ReadResponse(reader, nil)
		if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %v, %v, want 101", answer, err)
		}
		for range 3 {
			fmt.Fprintln(conn, "ping")
			if got, err := reader.ReadString('\n'); got != "ping\n" || err != nil {
				t.Errorf("sent ping: got %q, %v", got, err)
			}
			if got := do(t, "GET", "http://"+address+"/json"); got.StatusCode != http.StatusTooManyRequests {
				t.Errorf("beside the connection: got %d, want 429", got.StatusCode)
			}
		}
		conn.Close()
		limits.awaitSlots(t, 1)
	})
}

// In-flight limits do not change the responses of handlers, and outer middleware sees their errors.
func TestResponsesAreUnchangedWithSlots(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		s := newSite(t)
		plain := router.serve(t, newLimits(t, httplimit.Policy{Limits: perMinute(1), Skip: func(*http.Request) bool { return true }}), s)
		limits := inFlight(t, 1)
		limited := router.serve(t, limits.Middleware, s)
		for _, path := range []string{"/hello/ada", "/json", "/nothing", "/moved", "/file", "/fails", "/missing", "/panics", "/cost"} {
			want, got := do(t, "GET", "http://"+plain+path), do(t, "GET", "http://"+limited+path)
			for _, name := range []string{"RateLimit", "RateLimit-Policy", "Date"} {
				got.Header.Del(name)
				want.Header.Del(name)
			}
			if got.StatusCode != want.StatusCode || got.body != want.body || fmt.Sprint(got.Header) != fmt.Sprint(want.Header) {
				t.Errorf("%s: got %d %v %.100q\nwant %d %v %.100q", path, got.StatusCode, got.Header, got.body, want.StatusCode, want.Header, want.body)
			}
			limits.awaitSlots(t, 1)
		}
	})
}

// No slot stays held however requests end, and no more requests run than there are slots.
func TestNoSlotIsLeftBehind(t *testing.T) {
	const requests, workers = 300, 10
	paths := []string{"/hello/ada", "/json", "/nothing", "/file", "/fails", "/missing", "/panics", "/upgrade", "/stream"}
	forAll(t, func(t *testing.T, router router) {
		limits, s := inFlight(t, workers), newSite(t)
		s.proceed = make(chan struct{})
		close(s.proceed)
		address := router.serve(t, limits.Middleware, s)
		var wg sync.WaitGroup
		for worker := range workers {
			random := rand.New(rand.NewPCG(7, uint64(worker)))
			wg.Go(func() {
				for range requests / workers {
					cut(t, address, paths[random.IntN(len(paths))], random.IntN(200)-60)
				}
			})
		}
		wg.Wait()
		limits.awaitSlots(t, workers)
	})
}

// cut sends a request and closes the connection when this many bytes of the response have arrived; immediately if negative.
func cut(t *testing.T, address, path string, bytes int) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
	if path == "/upgrade" {
		bytes = min(bytes, 20) // it sends only the header until it receives something
	}
	if bytes > 0 {
		_, _ = io.CopyN(io.Discard, conn, int64(bytes))
	}
}
