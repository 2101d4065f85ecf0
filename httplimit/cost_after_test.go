package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// left returns what remains of the limit of 10 per hour for the address that httptest uses.
func (p *play) left() int64 {
	p.t.Helper()
	d, err := p.limiter.Peek(context.Background(), "192.0.2.1", 1)
	if err != nil {
		p.t.Fatal(err)
	}
	return d.Remaining
}

// afterPlay is a play with a CostAfter and a limit of 10 per hour.
func afterPlay(t *testing.T, after CostAfter, handler http.HandlerFunc) *play {
	return newPlay(t, Options{Policies: []Policy{{CostAfter: after}}}, handler, slidegate.PerHour(10))
}

func TestCostAfter(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	failed := CostIfStatus(func(code int) bool { return code >= 400 })
	for _, test := range []struct {
		name    string
		after   CostAfter
		handler http.HandlerFunc
		left    int64 // of 10
	}{
		{"a failure counts", failed, status(401), 9},
		{"a success is given back", failed, status(200), 10},
		{"a failure counts as much as it says", failed, func(w http.ResponseWriter, r *http.Request) { SetCost(r, 3); w.WriteHeader(400) }, 7},
		{"nothing written is a success", failed, func(http.ResponseWriter, *http.Request) {}, 10},
		{"early hints do not count", failed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(500) }, 9},
		{"bytes", CostOfBytes(1000), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 3001)) }, 6},
		{"bytes of several writes", CostOfBytes(1), func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 3))
			_, _ = io.Copy(w, strings.NewReader("ab"))
			_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("c")}) // no WriterTo, so by ReadFrom
			_, _ = w.Write(make([]byte, 1))
		}, 3},
		{"bytes of a file", CostOfBytes(1000), func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 5000)))
		}, 5},
		{"more than is left", CostOfBytes(1), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 30)) }, 0},
		{"the handler's word", CostFromHandler(), func(_ http.ResponseWriter, r *http.Request) { SetCost(r, 7); SetCost(r, 4) }, 6},
		{"no word", CostFromHandler(), func(http.ResponseWriter, *http.Request) {}, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := afterPlay(t, test.after, test.handler)
			p.do(httptest.NewRequest("GET", "/", nil))
			if got := p.left(); got != test.left {
				t.Errorf("got %d left, want %d", got, test.left)
			}
		})
	}
}

func TestSetCostWithoutAfter(t *testing.T) {
	p := newPlay(t, Options{}, func(_ http.ResponseWriter, r *http.Request) {
		if SetCost(r, 5) == nil {
			t.Error("SetCost returned nil where no policy has a CostAfter, want an error")
		}
	}, slidegate.PerHour(10))
	p.from("192.0.2.1")
}

// A handler that panics before it has written anything has failed, and the panic continues.
func TestPanicIsSettled(t *testing.T) {
	for _, test := range []struct {
		after CostAfter
		path  string
		left  int64
	}{
		{CostIfStatus(func(code int) bool { return code >= 500 }), "/", 9},
		{CostIfStatus(func(code int) bool { return code < 500 }), "/", 10},
		{CostIfStatus(func(code int) bool { return code == 404 }), "/written", 9}, // the written status counts
	} {
		p := afterPlay(t, test.after, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/written" {
				w.WriteHeader(http.StatusNotFound)
			}
			panic(http.ErrAbortHandler)
		})
		func() {
			defer func() {
				if recover() != http.ErrAbortHandler {
					t.Error("the handler's panic was swallowed or changed, want http.ErrAbortHandler")
				}
			}()
			p.do(httptest.NewRequest("GET", test.path, nil))
		}()
		if got := p.left(); got != test.left {
			t.Errorf("got %d left, want %d", got, test.left)
		}
	}
}

// wrapped is a writer as other middleware wraps it.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// The cost that a handler sets reaches all middlewares around it, through the writers of others between them.
func TestSetCostReachesAll(t *testing.T) {
	p := afterPlay(t, CostFromHandler(), func(_ http.ResponseWriter, r *http.Request) {
		if err := SetCost(r, 5); err != nil {
			t.Error(err)
		}
	})
	outer := afterPlay(t, CostFromHandler(), func(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(wrapped{w}, r) })
	outmost := afterPlay(t, CostFromHandler(), outer.handler.ServeHTTP)
	outmost.from("192.0.2.1")
	for i, play := range []*play{p, outer, outmost} {
		if got := play.left(); got != 5 {
			t.Errorf("middleware %d from inside: got %d of 10 left, want 5", i, got)
		}
	}
}

// One policy's CostAfter does not change what another one charges.
func TestAfterOfOnePolicy(t *testing.T) {
	hour := []slidegate.Limit{slidegate.PerHour(10)}
	p := newPlay(t, Options{Policies: []Policy{
		{Name: "requests", Limits: hour},
		{Name: "bytes", Limits: hour, CostAfter: CostOfBytes(1)},
	}}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("12345")) })
	p.from("192.0.2.1")
	w := p.from("192.0.2.1")
	if got, want := w.Header().Get("RateLimit"), `"requests";r=8;`; !strings.HasPrefix(got, want) {
		t.Errorf("got RateLimit %q, want prefix %q", got, want)
	}
	if got, want := w.Header().Get("RateLimit"), `"bytes";r=4;`; !strings.Contains(got, want) { // 10 - 5 - 1 for now
		t.Errorf("got RateLimit %q, want it to contain %q", got, want)
	}
}

// Streaming handlers keep the features they need, through a real server.
func TestStreamingThroughServer(t *testing.T) {
	p := afterPlay(t, CostOfBytes(1_000_000), func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/flush":
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("Flush returned %v, want nil", err)
			}
			w.(http.Flusher).Flush()
		case "/copy":
			if _, ok := w.(io.ReaderFrom); !ok {
				t.Errorf("the writer is a %T, want an io.ReaderFrom", w)
			}
			_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 100_000)))
		case "/hijack":
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Errorf("Hijack returned %v, want nil", err)
				return
			}
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
			_ = rw.Flush()
			conn.Close()
		}
	})
	server := httptest.NewServer(p.handler)
	defer server.Close()
	for path, want := range map[string]int{"/flush": 0, "/copy": 100_000} {
		response, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || len(body) != want {
			t.Errorf("%s: got %d bytes and the error %v, want %d and none", path, len(body), err, want)
		}
	}
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /hijack HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) || !strings.Contains(line, "101") {
		t.Errorf("hijacked: got the line %q and the error %v, want a line with 101", line, err)
	}
}

// If everything is charged afterwards, an overdrawn limit refuses, with a Retry-After.
func TestOverdrawnLimitRefuses(t *testing.T) {
	free := func(*http.Request) int64 { return 0 }
	p := newPlay(t, Options{Policies: []Policy{{Cost: free, CostAfter: CostOfBytes(1)}}},
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 6)) }, slidegate.PerHour(10))
	p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.1") }, 200, 200, 429)
	if w := p.from("192.0.2.1"); w.Header().Get("Retry-After") == "" || p.served != 2 {
		t.Errorf("got %d served and header %v of the last, want 2, and a Retry-After", p.served, w.Header())
	}
}

// A request that costs nothing is refused, with a Retry-After, exactly while one that costs a unit is.
func TestFreeRequestIsRefusedLikeOneUnit(t *testing.T) {
	for _, dialect := range []Headers{HeadersIETF, HeadersX, HeadersNone} {
		cost, plan := int64(5), policy.Limits(named("", 5))
		p := newPlay(t, Options{Headers: dialect, Policies: []Policy{{
			Name: "api", Limits: []slidegate.Limit{named("", 5)},
			Cost: func(*http.Request) int64 { return cost }, Plan: func(*http.Request) (policy.Plan, error) { return plan, nil },
		}}}, nil)
		p.from("192.0.2.1")
		for cost = range 2 { // with another plan too, which has less than was used
			for _, quota := range []int64{5, 2} {
				plan = policy.Limits(named("", quota))
				if w := p.from("192.0.2.1"); w.Code != 429 || w.Header().Get("Retry-After") != "60" {
					t.Errorf("dialect %d, cost %d of %d: status %d with %v, want 429 with a Retry-After of 60", dialect, cost, quota, w.Code, w.Header())
				}
			}
		}
		cost, plan = 0, policy.Limits(named("", 6))
		for range 3 {
			if w := p.from("192.0.2.1"); w.Code != 200 || w.Header().Get("Retry-After") != "" {
				t.Errorf("dialect %d: status %d with %v, want 200 without a Retry-After", dialect, w.Code, w.Header())
			}
		}
	}
}
