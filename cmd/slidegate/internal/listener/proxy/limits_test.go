package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/proxy"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/memstore"
	policies "github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func TestLimitsByRoute(t *testing.T) {
	var arrived atomic.Int64
	to := application(t, func(w http.ResponseWriter, r *http.Request) { arrived.Add(1); echo(w, r) })
	r := newRig(t, to, settings{policies: []config.Policy{
		policy("login", "POST /login", "2/1h"), policy("site", "/", "4/1h"),
	}})
	for i, step := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/login", 200}, {"POST", "/login", 200}, {"POST", "/login", 429},
		{"GET", "/login", 200}, // the third of site: the refused request was not charged to it
		{"GET", "/", 200}, {"GET", "/", 429}, {"POST", "/login", 429},
	} {
		if got := r.send(step.method, step.path); got.StatusCode != step.status {
			t.Errorf("step %d: %s %s: got %s, want %d", i, step.method, step.path, got.Status, step.status)
		}
	}
	if got := arrived.Load(); got != 4 {
		t.Errorf("%d requests reached the application, want 4", got)
	}
}

// TestFragmentsAreForwardedEscaped: if a fragment is allowed, net/http makes it part of the path, so the application receives it
// escaped. The limit applies nevertheless.
func TestFragmentsAreForwardedEscaped(t *testing.T) {
	s := settings{policies: []config.Policy{policy("login", "POST /login", "4/1h")}}
	s.opts.AllowAmbiguous = true
	r := newRig(t, application(t, echo), s)
	for i, step := range []struct {
		target, want string
		status       int
	}{
		{"/login#1", "POST /login%231 ", 200}, {"http://app.example/login#1", "POST /login%231 ", 200}, {"/login#1?a=b", "POST /login%231?a=b ", 200},
		{"/login?a=b#1", "POST /login?a=b#1 ", 200}, {"/login?a=b#2", "", 429},
	} {
		got := r.sendRaw("POST " + step.target + " HTTP/1.1\r\nHost: app.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if got.StatusCode != step.status || !strings.HasPrefix(got.body, step.want) {
			t.Errorf("step %d: %s: got %s and %q, want %d and %q", i, step.target, got.Status, got.body, step.status, step.want)
		}
	}
}

// TestRetryAfterIsExact: a request is admitted after Retry-After, but not a second earlier.
func TestRetryAfterIsExact(t *testing.T) {
	to := application(t, echo)
	r := newRig(t, to, settings{policies: []config.Policy{policy("p", "", "2/1m sliding-log")}})
	first := r.send("GET", "/")
	if got := first.Header.Get("Ratelimit"); got != `"2/1m sliding-log";r=1;t=60` {
		t.Errorf("RateLimit of the first: got %s", got)
	}
	if got := first.Header.Get("Ratelimit-Policy"); got != `"2/1m sliding-log";q=2;w=60` {
		t.Errorf("RateLimit-Policy: got %s", got)
	}
	r.clock.Advance(12_500_000)
	r.send("GET", "/")
	refused := r.send("GET", "/")
	// The first unit is free 60 s after it was taken, which is in 47.5 s.
	if refused.StatusCode != 429 || refused.Header.Get("Retry-After") != "48" || refused.Header.Get("Ratelimit") != `"2/1m sliding-log";r=0;t=48` {
		t.Fatalf("got %s %v, want 429, Retry-After 48, RateLimit \"2/1m sliding-log\";r=0;t=48", refused.Status, refused.Header)
	}
	var problem struct {
		Type, Title, Detail string
		Status              int
		Violated            []string `json:"violated-policies"`
		RetryAfter          int      `json:"retry_after"`
	}
	if err := json.Unmarshal([]byte(refused.body), &problem); err != nil {
		t.Fatal(err)
	}
	if kind, cache := refused.Header.Get("Content-Type"), refused.Header.Get("Cache-Control"); kind != "application/problem+json" || cache != "no-store" {
		t.Errorf("Content-Type %q, Cache-Control %q, want application/problem+json, no-store", kind, cache)
	}
	if problem.Status != 429 || !strings.HasSuffix(problem.Type, "#quota-exceeded") || !slices.Equal(problem.Violated, []string{"2/1m sliding-log"}) {
		t.Errorf("got %s\nwant status 429, type #quota-exceeded, violated-policies 2/1m sliding-log", refused.body)
	}
	if problem.RetryAfter != 48 || problem.Detail != "The quota is used up. Try again in 48 seconds." {
		t.Errorf("got retry_after %d, detail %q, want 48 in both", problem.RetryAfter, problem.Detail)
	}
	r.clock.Advance(47_000_000)
	if got := r.send("GET", "/"); got.StatusCode != 429 || got.Header.Get("Retry-After") != "1" || !strings.Contains(got.body, "in 1 second.") {
		t.Errorf("a second too early: got %s %v %s, want 429", got.Status, got.Header, got.body)
	}
	r.clock.Advance(1_000_000)
	if got := r.send("GET", "/"); got.StatusCode != 200 {
		t.Errorf("after Retry-After: got %s, want 200", got.Status)
	}
}

func TestNeverAdmitted(t *testing.T) {
	p := policy("p", "", "2/1m")
	p.Cost, _ = fields.ParseCost("3")
	r := newRig(t, application(t, echo), settings{policies: []config.Policy{p}})
	got := r.send("GET", "/")
	if _, there := got.Header["Retry-After"]; got.StatusCode != 429 || there || !strings.Contains(got.body, "never be admitted") {
		t.Errorf("got %s %v %s, want 429 without Retry-After that says the request can never be admitted", got.Status, got.Header, got.body)
	}
}

func TestDialects(t *testing.T) {
	to := application(t, echo)
	for dialect, want := range map[httplimit.Headers]string{
		// The only unit was used at 1,800,000,000 s, so with a log it is free 60 s later.
		httplimit.HeadersDraft03: "Ratelimit-Limit=1 Ratelimit-Remaining=0 Ratelimit-Reset=60",
		httplimit.HeadersX:       "X-Ratelimit-Limit=1 X-Ratelimit-Remaining=0 X-Ratelimit-Reset=1800000060",
		httplimit.HeadersXDelta:  "X-Ratelimit-Limit=1 X-Ratelimit-Remaining=0 X-Ratelimit-Reset=60",
		httplimit.HeadersNone:    "",
	} {
		s := settings{policies: []config.Policy{policy("p", "", "1/1m sliding-log")}}
		s.opts.Headers = dialect
		r := newRig(t, to, s)
		for _, status := range []int{200, 429} {
			got := r.send("GET", "/")
			var fields []string
			for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
				"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
				if value := got.Header.Get(name); value != "" {
					fields = append(fields, name+"="+value)
				}
			}
			if got.StatusCode != status || strings.Join(fields, " ") != want || (status == 429) != (got.Header.Get("Retry-After") == "60") {
				t.Errorf("dialect %d: got %s %v", dialect, got.Status, got.Header)
			}
		}
	}
}

// TestApplicationsOwnHeaders: the application's own headers about limits are kept, and not mixed with those of the gate.
func TestApplicationsOwnHeaders(t *testing.T) {
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", `"own";r=7`)
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
	})
	got := newRig(t, to, unlimitedSettings()).send("GET", "/")
	if got.Header.Get("RateLimit") != `"own";r=7` || got.Header.Get("RateLimit-Policy") != "" || len(got.Header["Set-Cookie"]) != 2 {
		t.Errorf("got %v, want the application's RateLimit, no RateLimit-Policy and two cookies", got.Header)
	}
}

// TestNoSpellingBypassesLimits: some application reads each of these as /login, and they are forwarded unchanged if the operator allows
// those that are ambiguous.
func TestNoSpellingBypassesLimits(t *testing.T) {
	targets := []string{
		"/login", "//login", "/./login", "/a/../login", "/%6cogin", "/a/%2e%2e/login", "/a/..%2flogin", "/a%2F..%2Flogin", "/%2Flogin",
		"/login?x=1;y=%zz", "/login?", "http://other.example/login", "HTTP://Other.Example//login",
	}
	for _, target := range targets {
		to := application(t, echo)
		s := settings{policies: []config.Policy{policy("login", "POST /login", "1/1h")}}
		s.opts.AllowAmbiguous = true
		r := newRig(t, to, s)
		r.send("POST", "/login") // takes the only unit
		if got := r.sendRaw("POST " + target + " HTTP/1.1\r\nHost: h.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); got.StatusCode != 429 {
			t.Errorf("%s: got %s, want 429", target, got.Status)
		}
		got := r.sendRaw("GET " + target + " HTTP/1.1\r\nHost: h.example\r\nConnection: close\r\n\r\n")
		want, host := target, "h.example"
		if _, after, absolute := strings.Cut(target, "://"); absolute {
			host, want, _ = strings.Cut(after, "/")
			want = "/" + want
		}
		if !strings.HasPrefix(got.body, "GET "+want+" host="+host+" ") {
			t.Errorf("%s arrived as %s", target, got.body)
		}
	}
}

func TestPathsArriveUnchanged(t *testing.T) {
	r := newRig(t, application(t, echo), unlimitedSettings())
	for _, target := range []string{"/", "/a%2Fb", "/a%2fb", "/a//b/", "/a/../b", "/../..", "/a;p=1", "/%e2%82%ac", "/a%20b?q=a+b%20c&q", "/x?a=1;b=2&c=%", "/?"} {
		got := r.sendRaw("GET " + target + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got.body, "GET "+target+" host=h ") {
			t.Errorf("%s arrived as %s", target, got.body)
		}
	}
}

// TestHostSpellings: a policy for a host applies to other spellings of it.
func TestHostSpellings(t *testing.T) {
	for _, host := range []string{"api.example", "API.Example", "api.example.", "api.example:8080", "API.example.:80"} {
		r := newRig(t, application(t, echo), settings{policies: []config.Policy{policy("api", "api.example/", "1/1h")}})
		text := "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
		if got := r.sendRaw(text); got.StatusCode != 200 || !strings.Contains(got.body, " host="+host+" ") {
			t.Errorf("host %s: got %s %s", host, got.Status, got.body)
		}
		if got := r.sendRaw(text); got.StatusCode != 429 {
			t.Errorf("host %s again: got %s, want 429", host, got.Status)
		}
	}
}

func TestLists(t *testing.T) {
	p := policy("p", "", "1/1h")
	p.Block.Addresses = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	r := newRig(t, application(t, echo), settings{policies: []config.Policy{p}})
	if got := r.send("GET", "/"); got.StatusCode != 403 || got.Header.Get("Retry-After") != "" || !strings.Contains(got.body, `"status":403`) {
		t.Errorf("on the block list: got %s %s, want 403", got.Status, got.body)
	}
	p.Block, p.Allow = policies.List{}, p.Block
	r = newRig(t, application(t, echo), settings{policies: []config.Policy{p}})
	for range 3 {
		if got := r.send("GET", "/"); got.StatusCode != 200 || got.Header.Get("Ratelimit") != "" {
			t.Errorf("on the allow list: got %s %v, want 200 without RateLimit", got.Status, got.Header)
		}
	}
}

// failingStore is a store that fails, or that decides like failure mode closed.
type failingStore struct {
	store.Store
	err error
}

func (f *failingStore) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch {
		batch[i].Err = f.err
		for j := range batch[i].Answers {
			batch[i].Answers[j] = rule.Answer{Flags: rule.FallbackClosed, RetryAfter: 1_500_000}
		}
	}
	return f.err
}

func TestStoreFails(t *testing.T) {
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err   error
		retry string
	}{{nil, "2"}, {errors.New("the store is broken"), ""}} {
		s := unlimitedSettings()
		s.store = &failingStore{memory, c.err}
		got := newRig(t, application(t, echo), s).send("GET", "/")
		if got.StatusCode != 503 || got.Header.Get("Retry-After") != c.retry || !strings.Contains(got.body, "#temporary-reduced-capacity") ||
			strings.Contains(got.body, "broken") || got.Header.Get("Ratelimit") != "" {
			t.Errorf("%v: got %s %v %s\nwant 503, Retry-After %q, type #temporary-reduced-capacity, no RateLimit, and not the cause",
				c.err, got.Status, got.Header, got.body, c.retry)
		}
	}
}

// TestUndecidablePolicyIsRejected: a policy that the store can never decide is a configuration error, not an outage.
func TestUndecidablePolicyIsRejected(t *testing.T) {
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := unlimitedSettings()
	s.store = &failingStore{memory, fmt.Errorf("%w: two nodes", store.ErrUnsupported)}
	got := newRig(t, application(t, echo), s).send("GET", "/")
	if got.StatusCode != 500 || strings.Contains(got.body, "two nodes") {
		t.Errorf("got %s %s, want 500 without the reason", got.Status, got.body)
	}
}

func TestWrongOptions(t *testing.T) {
	r := newRig(t, application(t, echo), unlimitedSettings())
	good := &url.URL{Scheme: "http", Host: "h:1"}
	for want, opts := range map[string]proxy.Options{
		"To: is missing":       {},
		"must begin with http": {To: &url.URL{Scheme: "ftp", Host: "h"}},
		"has no host":          {To: &url.URL{Scheme: "http", Host: ":80"}},
		"write http://h:1":     {To: &url.URL{Scheme: "http", Host: "h:1", Path: "/app"}},
		"write https://h":      {To: &url.URL{Scheme: "https", Host: "h", RawQuery: "a"}},
	} {
		if _, err := proxy.New(r.gate, opts); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "proxy: ") {
			t.Errorf("got %v, want an error of proxy with %q", err, want)
		}
	}
	if _, err := proxy.New(nil, proxy.Options{To: good}); err == nil {
		t.Error("got no error without a gate")
	}
}

// TestConcurrentRequestsGetTheQuota: however many requests are concurrent, exactly the quota reaches the application.
func TestConcurrentRequestsGetTheQuota(t *testing.T) {
	var arrived atomic.Int64
	r := newRig(t, application(t, func(http.ResponseWriter, *http.Request) { arrived.Add(1) }),
		settings{policies: []config.Policy{policy("p", "", "50/1h")}})
	done := make(chan int, 8)
	for range 8 {
		go func() {
			refused := 0
			for range 25 {
				got, err := r.http.Get("http://" + r.at + "/" + strconv.Itoa(refused))
				if err != nil {
					t.Error(err)
					break
				}
				got.Body.Close()
				if got.StatusCode == 429 {
					refused++
				}
			}
			done <- refused
		}()
	}
	refused := 0
	for range 8 {
		refused += <-done
	}
	if arrived.Load() != 50 || refused != 150 {
		t.Errorf("got %d admitted and %d refused, want 50 and 150", arrived.Load(), refused)
	}
}

// TestRefusalInOwnWords: refusals use the texts of the policy that refuses.
func TestRefusalInOwnWords(t *testing.T) {
	own := policy("p", "", "1/1h")
	own.Refusal = httplimit.Refusal{Type: "urn:example:limited", Title: "Slow", Detail: "Come back in {retry_after} s.", Status: 402}
	r := newRig(t, application(t, echo), settings{policies: []config.Policy{own}})
	r.send("GET", "/")
	const want = `{"type":"urn:example:limited","title":"Slow","status":402,"detail":"Come back in 3600 s.","violated-policies":["1/1h"],"retry_after":3600}`
	if got := r.send("GET", "/"); got.StatusCode != 402 || strings.TrimSpace(got.body) != want {
		t.Errorf("got %s %s, want 402 %s", got.Status, got.body, want)
	}
}
