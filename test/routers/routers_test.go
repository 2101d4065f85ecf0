package routers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/httplimit"
)

func hello(t *testing.T) *httplimit.Middleware {
	t.Helper()
	return newLimits(t, httplimit.Policy{Name: "hello", Limits: perMinute(3), Key: httplimit.ByHeader("X-Client")})
}

func TestRequestsAreLimited(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		s := newSite(t)
		address := router.serve(t, hello(t), s)
		for _, step := range []struct {
			client, name string
			refused      bool
			ratelimit    string // how the header begins
		}{
			{"ann", "ada", false, `"hello";r=2;t=`},
			{"ann", "bob", false, `"hello";r=1;t=`},
			{"ann", "cyd", false, `"hello";r=0`},
			{"ann", "dan", true, `"hello";r=0;t=`},
			{"ben", "eve", false, `"hello";r=2;t=`},
			{"ann", "fay", true, `"hello";r=0;t=`},
		} {
			r, err := http.NewRequest("GET", "http://"+address+"/hello/"+step.name, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Client", step.client)
			got := send(t, r)
			if value := got.Header.Get("RateLimit"); !strings.HasPrefix(value, step.ratelimit) {
				t.Errorf("%s, %s: got RateLimit %q, want prefix %s", step.client, step.name, value, step.ratelimit)
			}
			if value := got.Header.Get("RateLimit-Policy"); value != `"hello";q=3;w=60` {
				t.Errorf("%s, %s: got RateLimit-Policy %q", step.client, step.name, value)
			}
			if step.refused {
				checkRefusal(t, got)
			} else if got.StatusCode != http.StatusOK || got.body != "hello, "+step.name || got.Header.Get("Retry-After") != "" {
				t.Errorf("got %d %q with Retry-After %q, want a greeting", got.StatusCode, got.body, got.Header.Get("Retry-After"))
			}
		}
		if got := strings.Join(s.greeted, " "); got != "ada bob cyd eve" {
			t.Errorf("got a call of the handler for %s, want none", got)
		}
	})
}

// checkRefusal checks that a refusal is exactly that of Wrap in net/http.
func checkRefusal(t *testing.T, got response) {
	t.Helper()
	if got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("got status %d, want 429", got.StatusCode)
	}
	for name, want := range map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store"} {
		if values := got.Header.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("got %s %q, want %s", name, values, want)
		}
	}
	seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 80 { // three requests in a minute that has just begun: that minute and a third of the next
		t.Errorf("got Retry-After %q", got.Header.Get("Retry-After"))
	}
	if got.Request.Method == http.MethodHead {
		return
	}
	var problem struct {
		Type       string   `json:"type"`
		Status     int      `json:"status"`
		Violated   []string `json:"violated-policies"`
		RetryAfter int      `json:"retry_after"`
	}
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
		t.Fatalf("%v in %q", err, got.body)
	}
	if !strings.HasSuffix(problem.Type, "#quota-exceeded") || problem.Status != 429 || problem.RetryAfter != seconds ||
		len(problem.Violated) != 1 || problem.Violated[0] != "hello" {
		t.Errorf("got body %s, want type #quota-exceeded, status 429, retry_after %d, violated-policies [hello]", got.body, seconds)
	}
}

// HEAD requests, and requests for pages that do not exist, are refused like others.
func TestOtherRequestsAreRefused(t *testing.T) {
	for _, request := range []struct{ method, path string }{{"HEAD", "/hello/ada"}, {"GET", "/missing"}, {"POST", "/missing"}} {
		t.Run(request.method+request.path, func(t *testing.T) {
			forAll(t, func(t *testing.T, router router) {
				address := router.serve(t, hello(t), newSite(t))
				for i := range 4 {
					got := do(t, request.method, "http://"+address+request.path)
					switch {
					case i == 3:
						checkRefusal(t, got)
					case got.StatusCode == http.StatusTooManyRequests || got.Header.Get("RateLimit") == "":
						t.Errorf("request %d: got %d with RateLimit %q", i, got.StatusCode, got.Header.Get("RateLimit"))
					}
					if request.method == "HEAD" && got.body != "" {
						t.Errorf("HEAD: got body %q, want none", got.body)
					}
				}
			})
		})
	}
}

// A policy with a CostAfter sees the status and the size that the client gets.
func TestPoliciesSeeTheResponse(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		limits, seen := responseWatcher(t)
		address := router.serve(t, limits, newSite(t))
		for _, step := range []struct {
			method, path string
			status       int
			anySize      bool // the router adds its own body after the middleware, or there is none
		}{
			{"GET", "/hello/ada", 200, false},
			{"HEAD", "/hello/ada", 200, true},
			{"GET", "/json", 200, false},
			{"GET", "/nothing", 204, false},
			{"GET", "/moved", 302, false},
			{"GET", "/file", 200, false},
			{"GET", "/cost", 200, false},
			{"POST", "/login?password=right", 200, false},
			{"POST", "/login?password=wrong", 401, false},
			{"GET", "/fails", 500, false},
			{"GET", "/missing", 404, router.name == "gin"},
			{"GET", "/panics", 500, true},
			{"GET", "/hello/ada", 200, false}, // the panic has no effect on it
		} {
			got := do(t, step.method, "http://"+address+step.path)
			answer := <-seen
			if got.StatusCode != step.status || answer.Status != step.status {
				t.Errorf("%s %s: client: got %d, policy: got %d, want %d", step.method, step.path, got.StatusCode,
					answer.Status, step.status)
			}
			if !step.anySize && answer.Bytes != int64(len(got.body)) {
				t.Errorf("%s %s: client: got %d bytes, policy: got %d", step.method, step.path, len(got.body), answer.Bytes)
			}
			if want := map[bool]int64{true: 3, false: 1}[step.path == "/cost"]; answer.Cost != want {
				t.Errorf("%s %s: got cost %d, want %d", step.method, step.path, answer.Cost, want)
			}
		}
	})
}

// The middleware does not change the responses of handlers: with and without a policy that sees responses, they are the
// router's own.
func TestResponsesAreUnchanged(t *testing.T) {
	exempt := func(*http.Request) bool { return true }
	forAll(t, func(t *testing.T, router router) {
		s := newSite(t)
		shown, _ := responseWatcher(t)
		plain := router.serve(t, newLimits(t, httplimit.Policy{Limits: perMinute(1), Skip: exempt}), s)
		limited := router.serve(t, newLimits(t, httplimit.Policy{Limits: perMinute(1000)}), s)
		looked := router.serve(t, shown, s)
		for _, request := range []string{
			"GET /hello/ada", "HEAD /hello/ada", "GET /json", "GET /nothing", "GET /moved", "GET /file", "POST /login",
			"GET /fails", "GET /missing", "POST /json", "GET /panics",
		} {
			method, path, _ := strings.Cut(request, " ")
			want := do(t, method, "http://"+plain+path)
			for _, address := range []string{limited, looked} {
				got := do(t, method, "http://"+address+path)
				for _, name := range []string{"RateLimit", "RateLimit-Policy", "Date"} {
					got.Header.Del(name)
					want.Header.Del(name)
				}
				if got.StatusCode != want.StatusCode || got.body != want.body || fmt.Sprint(got.Header) != fmt.Sprint(want.Header) {
					t.Errorf("%s: got %d %v %.100q\nwant %d %v %.100q", request, got.StatusCode, got.Header, got.body,
						want.StatusCode, want.Header, want.body)
				}
			}
		}
	})
}

// Of ten wrong passwords three are checked. Right ones before them are free.
func TestFailedLogins(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		address := router.serve(t, newLimits(t, httplimit.Policy{
			Limits:    perMinute(3),
			CostAfter: httplimit.CostIfStatus(func(status int) bool { return status == http.StatusUnauthorized }),
		}), newSite(t))
		for i := range 10 {
			if got := do(t, "POST", "http://"+address+"/login?password=right"); got.StatusCode != http.StatusOK {
				t.Fatalf("right password %d: got %d, want 200", i, got.StatusCode)
			}
		}
		for i := range 10 {
			want := http.StatusUnauthorized
			if i >= 3 {
				want = http.StatusTooManyRequests
			}
			if got := do(t, "POST", "http://"+address+"/login?password=wrong"); got.StatusCode != want {
				t.Errorf("wrong password %d: got %d, want %d", i, got.StatusCode, want)
			}
		}
	})
}

// The same applies to concurrent logins.
func TestConcurrentFailedLogins(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		address := router.serve(t, newLimits(t, httplimit.Policy{
			Limits:    perMinute(3),
			CostAfter: httplimit.CostIfStatus(func(status int) bool { return status == http.StatusUnauthorized }),
		}), newSite(t))
		statuses := make(chan int)
		for range 30 {
			r, err := http.NewRequest("POST", "http://"+address+"/login?password=wrong", nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				got, err := exchange(r)
				if err != nil {
					t.Error(err)
					statuses <- 0
					return
				}
				statuses <- got.StatusCode
			}()
		}
		counts := map[int]int{}
		for range 30 {
			counts[<-statuses]++
		}
		if counts[http.StatusUnauthorized] != 3 || counts[http.StatusTooManyRequests] != 27 {
			t.Errorf("got these counts by status: %v", counts)
		}
	})
}

// A panic that is recovered inside the middleware is a response like any other.
func TestPanicInside(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		limits, seen := responseWatcher(t)
		s := newSite(t)
		s.recoverInside = true
		got := do(t, "GET", "http://"+router.serve(t, limits, s)+"/panics")
		if answer := <-seen; got.StatusCode != 500 || answer.Status != 500 {
			t.Errorf("client: got %d, policy: got %d, want 500", got.StatusCode, answer.Status)
		}
	})
}

// observers returns a middleware that does not look at responses, and one that sees all of them.
func observers(t *testing.T) map[string]*httplimit.Middleware {
	shown, _ := responseWatcher(t)
	return map[string]*httplimit.Middleware{
		"without CostAfter": newLimits(t, httplimit.Policy{Limits: perMinute(1000)}),
		"with CostAfter":    shown,
	}
}

// Data that a handler flushes reaches the client while the handler still runs.
func TestStreaming(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		for name, limits := range observers(t) {
			s := newSite(t)
			answer, err := http.Get("http://" + router.serve(t, limits, s) + "/stream")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			lines := bufio.NewReader(answer.Body)
			one, err := lines.ReadString('\n')
			if one != "one\n" || err != nil {
				t.Errorf("%s: first line: got %q, %v", name, one, err)
			}
			s.proceed <- struct{}{}
			if rest, err := io.ReadAll(lines); string(rest) != "two\n" || err != nil {
				t.Errorf("%s: rest: got %q, %v", name, rest, err)
			}
		}
	})
}

// A handler can take over the connection, as websocket handlers do.
func TestHijack(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		for name, limits := range observers(t) {
			conn, err := net.Dial("tcp", router.serve(t, limits, newSite(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET /upgrade HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
			reader := bufio.NewReader(conn)
			answer, err := http.ReadResponse(reader, nil)
			if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%s: got %v, %v, want 101", name, answer, err)
			}
			for _, line := range []string{"ping\n", "pong\n"} {
				fmt.Fprint(conn, line)
				if got, err := reader.ReadString('\n'); got != line || err != nil {
					t.Errorf("%s: sent %q: got %q, %v", name, line, got, err)
				}
			}
		}
	})
}

// Policies see a hijacked connection as status 101.
func TestHijackIsSeen(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		limits, seen := responseWatcher(t)
		conn, err := net.Dial("tcp", router.serve(t, limits, newSite(t)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /upgrade HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
		// Only after the response: net/http treats an earlier end of the stream as a disconnected client.
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %v, %v, want 101", answer, err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if answer := <-seen; answer.Status != http.StatusSwitchingProtocols {
			t.Errorf("policy: got %d, want 101", answer.Status)
		}
	})
}

// http.ResponseController reaches the connection.
func TestDeadlines(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		if !router.isNetHTTP() {
			return // fiber's handlers have none
		}
		for name, limits := range observers(t) {
			if got := do(t, "GET", "http://"+router.serve(t, limits, newSite(t))+"/deadline"); got.body != "<nil> <nil>" {
				t.Errorf("%s: got %s from setting deadlines, want <nil> <nil>", name, got.body)
			}
		}
	})
}

// Refusals with no body, or with the application's own, arrive unchanged.
func TestOwnRefusals(t *testing.T) {
	policies := []httplimit.Policy{{Limits: perMinute(1)}}
	forAll(t, func(t *testing.T, router router) {
		for _, test := range []struct {
			name   string
			opts   httplimit.Options
			status int
			body   string
		}{
			{"no body", httplimit.Options{Body: httplimit.BodyNone}, 429, ""},
			{"own", httplimit.Options{Refuse: func(w http.ResponseWriter, _ *http.Request, _ httplimit.Event) {
				w.Header().Set("X-Own", "yes")
				http.Error(w, "slow down", http.StatusServiceUnavailable)
			}}, 503, "slow down\n"},
			{"nothing", httplimit.Options{Refuse: func(w http.ResponseWriter, _ *http.Request, _ httplimit.Event) {
				w.Header().Set("X-Own", "yes")
			}}, 200, ""},
		} {
			test.opts.Policies = policies
			s := newSite(t)
			address := router.serve(t, newLimitsWith(t, test.opts), s)
			do(t, "GET", "http://"+address+"/hello/ada")
			got := do(t, "GET", "http://"+address+"/hello/ada")
			if got.StatusCode != test.status || got.body != test.body || (got.Header.Get("X-Own") == "yes") != (test.opts.Refuse != nil) {
				t.Errorf("%s: got %d %q %v, want %d %q, X-Own only of Refuse", test.name, got.StatusCode, got.body, got.Header, test.status, test.body)
			}
			if got.Header.Get("Retry-After") == "" || len(s.greeted) != 1 {
				t.Errorf("%s: got %v, greeted %q", test.name, got.Header, s.greeted)
			}
		}
	})
}
