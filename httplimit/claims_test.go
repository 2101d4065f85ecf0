package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// claims lists the optional interfaces of a writer.
func claims(w http.ResponseWriter) string {
	_, flushes := w.(http.Flusher)
	_, hijacks := w.(http.Hijacker)
	return fmt.Sprintf("flushes %t, hijacks %t", flushes, hijacks)
}

// Behind a CostAfter a handler gets a writer with the same optional interfaces as the server's own, over HTTP/1 and HTTP/2.
func TestWriterClaimsWhatTheServerCan(t *testing.T) {
	for _, two := range []bool{false, true} {
		var plain, limited string
		p := afterPlay(t, CostFromHandler(), func(w http.ResponseWriter, _ *http.Request) { limited = claims(w) })
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			plain = claims(w)
			p.handler.ServeHTTP(w, r)
		}))
		server.EnableHTTP2 = two
		server.StartTLS()
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		server.Close()
		if plain != limited || plain == "" || two != strings.HasSuffix(plain, "hijacks false") {
			t.Errorf("HTTP/2 %t: got %s from the server and %s from the middleware, want the same", two, plain, limited)
		}
	}
}

// The same applies to every writer that a middleware in between may have made.
func TestWriterClaimsWhatTheWriterBelowCan(t *testing.T) {
	all := &fullWriter{ResponseRecorder: httptest.NewRecorder()}
	for name, w := range map[string]http.ResponseWriter{
		"all":     all,
		"none":    plain{httptest.NewRecorder()},
		"flushes": httptest.NewRecorder(),
		"hijacks": struct {
			http.ResponseWriter
			http.Hijacker
		}{plain{all}, all},
	} {
		if got, want := claims((&recorder{ResponseWriter: w}).writer()), claims(w); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// SetCost reaches all middlewares, also through a writer without Unwrap between them.
func TestSetCostOverAWriterWithoutUnwrap(t *testing.T) {
	inner := afterPlay(t, CostFromHandler(), func(_ http.ResponseWriter, r *http.Request) { SetCost(r, 4) })
	outer := afterPlay(t, CostFromHandler(), func(w http.ResponseWriter, r *http.Request) { inner.handler.ServeHTTP(plain{w}, r) })
	outer.do(httptest.NewRequest("GET", "/", nil))
	if in, out := inner.left(), outer.left(); in != 6 || out != 6 {
		t.Errorf("got %d and %d of 10 left inside and outside, want 6 and 6", in, out)
	}
}

// All errors in policies are reported together.
func TestMatchAndLimitsAreBothWrong(t *testing.T) {
	limiter := testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t)))(t)
	_, err := New(limiter, Options{Policies: []Policy{{Name: "a", Match: "login"}, {Name: "b", Match: "/{x"}}})
	for _, want := range []string{`policy "a"`, `"login"`, `policy "b"`, `"{x"`, "no limits"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want it to contain %s", err, want)
		}
	}
}

// A limit with the name of its policy is shown under one name.
func TestALimitOfThePolicysName(t *testing.T) {
	for want, limits := range map[string][]slidegate.Limit{
		`"api";r=4`:                 {named("api", 5)},
		`"api/api";r=4, "api";r=6`:  {named("api", 5), named("", 7)}, // which has the policy's name
		`"api";r=4, "api/hour";r=6`: {named("api", 5), named("hour", 7)},
	} {
		p := newPlay(t, Options{Policies: []Policy{{Name: "api", Limits: limits}}}, nil)
		if got := timesOf.ReplaceAllString(p.from("192.0.2.1").Header().Get("RateLimit"), ""); got != want {
			t.Errorf("got RateLimit %s, want %s", got, want)
		}
	}
}

// Names that are not valid in header fields, or make them too long, are rejected everywhere.
func TestNamesInHeaders(t *testing.T) {
	limiter := testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t), slidegate.PerMinute(1)))(t)
	perCall := testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t)))(t)
	long := strings.Repeat("n", engine.MaxName+1)
	for name, fix := range map[string]string{long: "use at most 64", "täglich": "use printable ASCII", "a\nb": "use printable ASCII"} {
		bad := []slidegate.Limit{named(name, 1)}
		for where, given := range map[string]Policy{
			"policy": {Name: name}, "limit": {Name: "p", Limits: bad},
			"override": {Name: "p", Overrides: []policy.Override{{Key: "192.0.2.1", Limits: bad}}},
		} {
			if _, err := New(limiter, Options{Policies: []Policy{given}}); err == nil || !strings.Contains(err.Error(), fix) || len(err.Error()) > 200 {
				t.Errorf("%s: got %v, want an error that contains %q", where, err, fix)
			}
		}
		p := newPlay(t, Options{Policies: []Policy{{Plan: func(*http.Request) (policy.Plan, error) { return policy.Limits(bad...), nil }}}}, nil, slidegate.PerMinute(1))
		if w := p.from("192.0.2.1"); w.Code != 500 || !strings.Contains(p.last().Err.Error(), fix) {
			t.Errorf("a plan: got status %d, %v; want 500 and an error that contains %q", w.Code, p.last().Err, fix)
		}
	}
	if _, err := New(perCall, Options{Policies: []Policy{{Name: long[1:], Limits: []slidegate.Limit{named(long[1:], 1), named("x"+long[2:], 1)}}}}); err != nil {
		t.Errorf("names of %d bytes are rejected: %v", engine.MaxName, err)
	}
}

// LocalBytes bounds the memory of store.FailLocal in this process.
func TestLocalBytes(t *testing.T) {
	for _, bytes := range []int64{0, 256 << 10} {
		opts := Options{Failure: store.FailLocal, LocalBytes: bytes, Headers: HeadersNone, Policies: []Policy{{Key: ByHeader("X-User")}}}
		store := newHookStore(t, func(context.Context, *store.Request) error { return errBroken })
		store.trips = 1
		p := (&play{t: t}).over(store, opts, nil, slidegate.PerHour(1))
		const users = 5000
		admitted, inherited := 0, 0
		for i := range 2 * users {
			code := p.do(request(fmt.Sprintf("X-User: %d", i%users))).Code
			if i < users {
				continue
			}
			if code == 200 {
				admitted++
			}
			if p.last().Decision.Flags&rule.Inherited != 0 {
				inherited++
			}
		}
		if admitted > 0 || (bytes == 0) != (inherited == 0) {
			t.Errorf("%d bytes: %d of %d users were admitted again, and %d forgotten; want none admitted, and some forgotten only with little memory",
				bytes, admitted, users, inherited)
		}
	}
	limiter := testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t), slidegate.PerMinute(1)))(t)
	if _, err := New(limiter, Options{Failure: store.FailLocal, LocalBytes: -1}); err == nil || !strings.Contains(err.Error(), "LocalBytes: must be") {
		t.Errorf("LocalBytes -1: %v, want an error that names LocalBytes", err)
	}
}
