package httplimit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// pass is the apply of a between that does nothing.
func pass(context.Context, *store.Request) error { return nil }

// heldServer is a real server behind a middleware with an in-flight limit.
type heldServer struct {
	*play
	server *httptest.Server
	conns  sync.WaitGroup // requests, and the connections that handlers have taken over
}

// newHeldServer serves a handler on loopback with a limit of n slots for all clients, in a store with this many round trips.
func newHeldServer(t *testing.T, n int64, trips int, handler func(h *heldServer, w http.ResponseWriter, r *http.Request)) *heldServer {
	t.Helper()
	between := newHookStore(t, pass)
	between.trips = trips
	h := &heldServer{}
	var mu sync.Mutex // the play's own hook is not safe for concurrent use
	limiter, err := slidegate.New(between)
	if err != nil {
		t.Fatal(err)
	}
	h.play = &play{t: t, limiter: limiter}
	h.limits, err = New(limiter, Options{
		Timeout:  time.Minute, // so that a busy machine does not look like an outage
		Policies: []Policy{{Name: "api", Limits: []slidegate.Limit{slots("", n)}, Key: KeyFunc(func(*http.Request) (string, error) { return "192.0.2.1", nil }), ShareEmptyKey: true}},
		OnDecision: func(_ *http.Request, e Event) {
			mu.Lock()
			defer mu.Unlock()
			h.events = append(h.events, e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	limited := h.limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(h, w, r) }))
	h.server = httptest.NewUnstartedServer(h.counted(limited))
	h.server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handlers that panic
	h.server.Start()
	t.Cleanup(h.server.Close)
	return h
}

// counted counts the requests to a handler: a server does not wait for requests whose connections were hijacked.
func (h *heldServer) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.conns.Add(1)
		defer h.conns.Done()
		next.ServeHTTP(w, r)
	})
}

// hijack hijacks a connection and reads from it until the client closes it, or closes it immediately.
func (h *heldServer) hijack(t *testing.T, w http.ResponseWriter, atOnce bool) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
	h.conns.Go(func() { // the handler returns before
		if !atOnce {
			_, _ = io.Copy(io.Discard, rw)
		}
		conn.Close()
	})
}

// dial sends a request whose handler hijacks the connection, and waits for the response.
func (h *heldServer) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", h.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /hijack HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v and %v, want 101", response, err)
	}
	return conn
}

// Two hundred concurrent requests with fifty slots: fifty run, and the others are refused with the time when the last slot
// expires at the latest.
func TestConcurrentRequestsAreBounded(t *testing.T) {
	const all, most = 200, 50
	for trips := range 2 {
		release := make(chan struct{})
		var running, peak atomic.Int64
		h := newHeldServer(t, most, trips, func(_ *heldServer, _ http.ResponseWriter, _ *http.Request) {
			now := running.Add(1)
			for before := peak.Load(); now > before && !peak.CompareAndSwap(before, now); before = peak.Load() {
			}
			<-release
			running.Add(-1)
		})
		statuses := make(chan int, all)
		for range all {
			go func() {
				response, err := http.Get(h.server.URL)
				if err != nil {
					t.Error(err)
					statuses <- 0
					return
				}
				response.Body.Close()
				if after := response.Header.Get("Retry-After"); (response.StatusCode == 429) != (after == "60") {
					t.Errorf("got status %d with Retry-After %q, want 60 with refusals only", response.StatusCode, after)
				}
				statuses <- response.StatusCode
			}()
		}
		for i := range all - most {
			if status := <-statuses; status != 429 {
				t.Fatalf("%d round trips: response %d while all slots are held: got %d, want 429", trips, i, status)
			}
		}
		close(release)
		for range most {
			if status := <-statuses; status != 200 {
				t.Errorf("%d round trips: a request that held a slot: got %d, want 200", trips, status)
			}
		}
		if got := peak.Load(); got != most {
			t.Errorf("%d round trips: got %d concurrent requests, want %d", trips, got, most)
		}
		http.DefaultClient.CloseIdleConnections()
		h.wantFree("afterwards", "api", most)
	}
}

// No slot stays held, however requests end.
func TestNoSlotIsLeftBehind(t *testing.T) {
	const requests, workers = 1000, 20
	for trips := range 2 {
		h := newHeldServer(t, workers, trips, func(h *heldServer, w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/panic":
				panic(http.ErrAbortHandler)
			case "/late-panic":
				_, _ = io.WriteString(w, "begun")
				panic("a bug")
			case "/failed":
				http.Error(w, "the application did not answer", http.StatusGatewayTimeout)
			case "/gone":
				<-r.Context().Done()
			case "/stream":
				for range 10 {
					_, _ = fmt.Fprintln(w, "a line")
					_ = http.NewResponseController(w).Flush()
				}
			case "/endless":
				for r.Context().Err() == nil {
					_, _ = fmt.Fprintln(w, "a line")
					_ = http.NewResponseController(w).Flush()
				}
			case "/hijack":
				h.hijack(t, w, false)
			case "/hijack-close":
				h.hijack(t, w, true)
			}
		})
		var wg sync.WaitGroup
		var next atomic.Int64
		for worker := range workers {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			wg.Go(func() {
				for next.Add(1) <= requests {
					h.cut(t, random)
				}
			})
		}
		wg.Wait()
		http.DefaultClient.CloseIdleConnections()
		h.server.Close()
		h.conns.Wait()
		h.wantFree(fmt.Sprintf("%d round trips, after %d requests", trips, requests), "api", workers)
		for _, e := range h.events {
			if e.Err != nil && !e.Ended {
				t.Errorf("%d round trips: got event %+v, want no errors except of clients that are gone", trips, e)
			}
		}
	}
}

// cut makes a request and ends it in one of many ways.
func (h *heldServer) cut(t *testing.T, random *rand.Rand) {
	paths := []string{"/", "/panic", "/late-panic", "/failed", "/gone", "/stream", "/endless", "/hijack", "/hijack-close"}
	path := paths[random.IntN(len(paths))]
	conn, err := net.Dial("tcp", h.server.Listener.Addr().String())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
	if path == "/gone" || random.IntN(3) == 0 {
		return // without reading
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return // the handler panicked
	}
	if response.StatusCode == http.StatusTooManyRequests { // requests of clients that are gone may hold slots
		return
	}
	_, _ = io.CopyN(io.Discard, response.Body, int64(random.IntN(40)))
}

// A hijacked connection holds its slot until either side closes it, even after the handler has returned.
func TestHijackedConnectionsHoldTheirSlot(t *testing.T) {
	h := newHeldServer(t, 2, 0, func(h *heldServer, w http.ResponseWriter, r *http.Request) { h.hijack(t, w, r.URL.Path == "/close") })
	first, second := h.dial(t), h.dial(t)
	h.wantFree("both are open", "api", 0)
	if response, err := http.Get(h.server.URL); err != nil || response.StatusCode != 429 {
		t.Fatalf("a third: got %v and %v, want 429", response, err)
	}
	first.Close()
	second.Close()
	h.conns.Wait()
	h.wantFree("both are closed", "api", 2)
}

// A connection that a handler loses without closing it is garbage collected, and its slot is released.
func TestLostConnectionsReleaseTheirSlot(t *testing.T) {
	h := newHeldServer(t, 1, 0, func(_ *heldServer, w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
	})
	conn := h.dial(t)
	defer conn.Close()
	for deadline := time.Now().Add(10 * time.Second); h.free("api")[0] == 0; runtime.Gosched() {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatal("the slot of a lost connection is still held")
		}
	}
}

// The features of a TCP connection work through the held one, which has no other optional interfaces.
func TestHeldConnections(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	released := 0
	plain := holdConn(server, func() { released++ })
	if _, ok := plain.(halfCloser); ok {
		t.Error("a held pipe implements CloseWrite, want it not to")
	}
	_ = plain.Close()
	if released != 1 {
		t.Errorf("got %d releases, want 1", released)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := holdConn(holdConn(accepted, func() {}), func() {})
	defer conn.Close()
	if _, ok := conn.(tcpConn); !ok {
		t.Fatalf("%T lacks interfaces of TCP connections", conn)
	}
	if err := conn.(halfCloser).CloseWrite(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(dialled); len(rest) > 0 || err != nil {
		t.Errorf("the other side: got %q, %v; want the end", rest, err)
	}
}
