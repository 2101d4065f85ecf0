package httplimit

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// respondTo returns a play whose handler limits by Respond, with the user of the query as the key, and writes 204 if it goes on.
func respondTo(t *testing.T, opts Options, name string, limits ...slidegate.Limit) *play {
	var p *play
	p = newPlay(t, opts, func(w http.ResponseWriter, r *http.Request) {
		if p.limits.Respond(w, r, name, r.URL.Query().Get("user")) {
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}, limits...)
	return p
}

// as sends a request of a user, from an address.
func (p *play) as(user, address string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/login?user="+user, nil)
	r.RemoteAddr = address + ":1234"
	return p.do(r)
}

// logins is a policy for Respond alone, with two units a minute.
var logins = Policy{Name: "logins", Key: ByHandler(), Limits: []slidegate.Limit{slidegate.PerMinute(2)}}

// A handler limits each key by itself. A refusal is the one that Wrap writes, and Respond reports that it has written it.
func TestRespondLimitsByTheGivenKey(t *testing.T) {
	p := respondTo(t, Options{Policies: []Policy{logins}}, "logins")
	ann := func() *httptest.ResponseRecorder { return p.as("ann", "192.0.2.1") }
	p.want(ann, 204, 204)
	if got := p.as("ann", "192.0.2.9"); got.Code != 429 || got.Header().Get("Retry-After") != "60" || !strings.Contains(got.Body.String(), `"violated-policies":["logins"]`) {
		t.Errorf("got %d, Retry-After %q and %s, want 429, 60 and the problem", got.Code, got.Header().Get("Retry-After"), got.Body)
	}
	if e := p.last(); e.Policy != "logins" || !e.Refused {
		t.Errorf("got the event %+v, want a refusal by logins", e)
	}
	if got := p.as("bob", "192.0.2.1"); got.Code != 204 || got.Header().Get("RateLimit") != `"logins";r=1;t=60` {
		t.Errorf("another key: got %d and RateLimit %q, want 204 and one unit left", got.Code, got.Header().Get("RateLimit"))
	}
	p.wait(time.Minute)
	p.want(ann, 204)
}

// Wrap does not apply policies with ByHandler, alone or beside others.
func TestWrapLeavesOutByHandler(t *testing.T) {
	for name, policies := range map[string][]Policy{
		"alone": {logins}, "beside another": {logins, {Name: "all", Limits: []slidegate.Limit{slidegate.PerMinute(100)}}},
	} {
		p := newPlay(t, Options{Policies: policies}, nil)
		for range 3 {
			if got := p.from("192.0.2.1"); got.Code != 200 || strings.Contains(got.Header().Get("RateLimit"), "logins") {
				t.Errorf("%s: got %d and RateLimit %q, want 200 and nothing of logins", name, got.Code, got.Header().Get("RateLimit"))
			}
		}
	}
}

// A refusal is whole although the handler has announced the length of its own response.
func TestRespondReplacesAContentLength(t *testing.T) {
	var p *play
	p = newPlay(t, Options{Policies: []Policy{logins}}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		if !p.limits.Respond(w, r, "logins", "ann") {
			_, _ = io.WriteString(w, "ok")
		}
	})
	server := httptest.NewServer(p.handler)
	defer server.Close()
	for _, want := range []int{200, 200, 429} {
		response, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != want || err != nil || want == 429 && !strings.Contains(string(body), "violated-policies") {
			t.Errorf("got %d, %q, %v, want %d and its whole body", response.StatusCode, body, err, want)
		}
	}
}

// A request that both a wrapped policy and Respond limit is charged to both, and its response has the fields of both.
func TestRespondInsideWrap(t *testing.T) {
	p := respondTo(t, Options{Policies: []Policy{logins, {Name: "all", Limits: []slidegate.Limit{slidegate.PerMinute(3)}}}}, "logins")
	got := p.as("ann", "192.0.2.1")
	if fields := strings.Join(got.Header().Values("RateLimit"), ", "); !strings.Contains(fields, `"all";r=2`) || !strings.Contains(fields, `"logins";r=1`) {
		t.Errorf("got RateLimit %q, want what is left of both", fields)
	}
	p.want(func() *httptest.ResponseRecorder { return p.as("ann", "192.0.2.1") }, 204, 429) // by logins
	p.want(func() *httptest.ResponseRecorder { return p.as("bob", "192.0.2.1") }, 429)      // by all
}

// An empty key is the address, and no user can take the key of an address.
func TestRespondWithoutAKey(t *testing.T) {
	for _, key := range []Key{ByHandler(), {}} {
		own := logins
		own.Key = key
		p := respondTo(t, Options{Policies: []Policy{own}}, "logins")
		p.handler = http.HandlerFunc( // without Wrap, which applies a policy with the zero Key
			func(w http.ResponseWriter, r *http.Request) {
				p.limits.Respond(w, r, "logins", r.URL.Query().Get("user"))
			})
		p.want(func() *httptest.ResponseRecorder { return p.as("", "192.0.2.1") }, 200, 200, 429)
		p.want(func() *httptest.ResponseRecorder { return p.as("", "192.0.2.2") }, 200)
	}
	p := respondTo(t, Options{Policies: []Policy{logins}}, "logins")
	p.want(func() *httptest.ResponseRecorder { return p.as("address:192.0.2.1", "192.0.2.9") }, 204, 204, 429)
	p.want(func() *httptest.ResponseRecorder { return p.as("", "192.0.2.1") }, 204)
}

// Costs, plans, lists and shadow mode apply as with Wrap, and Peek, Reset and overrides name the key as the handler gives it.
func TestRespondAppliesThePolicy(t *testing.T) {
	own := logins
	own.Cost = func(r *http.Request) int64 { return int64(len(r.URL.Query().Get("user"))) }
	own.Overrides = []policy.Override{{Key: "root", Limits: []slidegate.Limit{slidegate.PerMinute(8)}}}
	own.Block = policy.List{Keys: []string{"eve"}}
	p := respondTo(t, Options{Policies: []Policy{own}}, "logins")
	p.want(func() *httptest.ResponseRecorder { return p.as("al", "192.0.2.1") }, 204, 429) // it costs two
	p.want(func() *httptest.ResponseRecorder { return p.as("root", "192.0.2.1") }, 204, 204, 429)
	p.want(func() *httptest.ResponseRecorder { return p.as("eve", "192.0.2.1") }, 403)
	if e, err := p.limits.Peek(t.Context(), "logins", "al"); err != nil || e.Allowed {
		t.Errorf("peek: got %+v, %v, want a refusal", e, err)
	}
	if err := p.limits.Reset(t.Context(), "logins", "al"); err != nil {
		t.Fatal(err)
	}
	p.want(func() *httptest.ResponseRecorder { return p.as("al", "192.0.2.1") }, 204)

	own = logins
	own.Shadow = true
	p = respondTo(t, Options{Policies: []Policy{own}}, "logins")
	p.want(func() *httptest.ResponseRecorder { return p.as("ann", "192.0.2.1") }, 204, 204, 204)
	if e := p.last(); !e.Shadow || e.Allowed {
		t.Errorf("got the event %+v, want what shadow mode would refuse", e)
	}
}

// A name that no policy has, and an in-flight limit, are server errors and not admissions.
func TestRespondMistakes(t *testing.T) {
	running := Policy{Name: "running", Key: ByHandler(), Limits: []slidegate.Limit{slidegate.Slots(1, time.Minute)}}
	for name, wrong := range map[string]func(error) bool{
		"no-such": func(err error) bool { return err != nil && strings.Contains(err.Error(), `unknown policy "no-such"`) },
		"running": func(err error) bool { return errors.Is(err, policy.ErrSlots) },
	} {
		p := respondTo(t, Options{Policies: []Policy{logins, running}}, name)
		if got := p.as("ann", "192.0.2.1"); got.Code != 500 {
			t.Errorf("%s: got %d, want 500", name, got.Code)
		}
		if e := p.last(); !e.Mistake || !wrong(e.Err) {
			t.Errorf("%s: got the event %+v, want its error", name, e)
		}
	}
}

// While the store does not answer, the failure mode decides.
func TestRespondDuringAnOutage(t *testing.T) {
	for mode, want := range map[string]int{"local": 204, "closed": 503} {
		opts := Options{Policies: []Policy{logins}, Timeout: -1}
		if mode == "local" {
			opts.Timeout = time.Second
		}
		p := &play{t: t}
		p.over(&broken{}, opts, func(w http.ResponseWriter, r *http.Request) {
			if !p.limits.Respond(w, r, "logins", "ann") {
				w.WriteHeader(http.StatusNoContent)
			}
		})
		if got := p.as("ann", "192.0.2.1"); got.Code != want {
			t.Errorf("%s: got %d, want %d", mode, got.Code, want)
		}
		if e := p.last(); e.Flags&(rule.FallbackLocal|rule.FallbackClosed) == 0 {
			t.Errorf("%s: got the flags %v, want those of a fallback", mode, e.Flags)
		}
	}
}

// All spellings of a path are one key, which overrides may write in any of them, and different paths have quotas of their own.
func TestByPathCountsSpellingsTogether(t *testing.T) {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.PerHour(1))
	limits, err := New(limiter, Options{Policies: []Policy{{Key: ByPath(), Overrides: []policy.Override{{Key: "/free", Unlimited: true}, {Key: "/open/*", Pattern: true, Unlimited: true}}}}})
	if err != nil {
		t.Fatal(err)
	}
	handler := limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, test := range []struct {
		target string
		want   int
	}{
		{"/login", 200}, {"/login/", 429}, {"/LOGIN", 429}, {"/%6cogin", 429}, {"/x/../login", 429}, {"//login", 429}, {"/./login", 429}, {`/%5Clogin`, 429},
		{"/login?x=1", 429}, {"/other", 200}, {"/a/b", 200}, {"/a%2Fb", 429}, {"/a%2fB/", 429}, {"/", 200}, {"/free", 200}, {"/FREE", 200}, {"/open/x", 200}, {"/Open/X/", 200},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "http://h"+test.target, nil))
		if w.Code != test.want {
			t.Errorf("%s: got %d, want %d", test.target, w.Code, test.want)
		}
	}
}
