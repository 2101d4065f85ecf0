package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// everyRequest is a policy for every request, decided alone, or as a engine.Transaction because it has a CostAfter.
func everyRequest(alone bool, given Policy) []Policy {
	if !alone {
		given.CostAfter = CostFromHandler()
	}
	return []Policy{given}
}

// Each decision is reported exactly once, before the handler runs or the refusal is written, with its request.
func TestOnDecisionOnceAndFirst(t *testing.T) {
	for _, alone := range []bool{true, false} {
		var trace []string
		opts := Options{
			Policies: everyRequest(alone, Policy{Name: "api", Limits: []slidegate.Limit{slidegate.PerMinute(1)}}),
			OnDecision: func(r *http.Request, e Event) {
				trace = append(trace, fmt.Sprintf("%s %s allowed=%v refused=%v shadow=%v err=%v remaining=%d",
					r.URL.Path, e.Policy, e.Decision.Allowed, e.Refused, e.Shadow, e.Err, e.Decision.Remaining))
			},
			Refuse: func(w http.ResponseWriter, _ *http.Request, e Event) {
				trace = append(trace, fmt.Sprintf("refuse %s refused=%v", e.Policy, e.Refused))
				w.WriteHeader(http.StatusTooManyRequests)
			},
		}
		p := newPlay(t, opts, func(http.ResponseWriter, *http.Request) { trace = append(trace, "handler") })
		p.do(httptest.NewRequest("GET", "/a", nil))
		p.do(httptest.NewRequest("GET", "/b", nil))
		want := []string{
			"/a api allowed=true refused=false shadow=false err=<nil> remaining=0", "handler",
			"/b api allowed=false refused=true shadow=false err=<nil> remaining=0", "refuse api refused=true",
		}
		if !slices.Equal(trace, want) {
			t.Errorf("alone %v: got\n%s\nwant\n%s", alone, strings.Join(trace, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Every policy is reported once. Exempt requests are not reported.
func TestEventsOfSeveralPolicies(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerMinute(5)}
	p := newPlay(t, Options{Policies: []Policy{
		{Name: "a", Limits: limits}, {Name: "b", Limits: []slidegate.Limit{slidegate.PerMinute(2)}},
		{Name: "tried", Limits: limits, Shadow: true}, {Name: "other", Limits: limits, Match: "/other/"},
		{Name: "off", Limits: limits, Skip: func(*http.Request) bool { return true }},
		{Name: "again", Limits: limits, Shadow: true},
	}}, nil)
	p.from("192.0.2.1")
	var names []string
	for _, e := range p.events {
		names = append(names, fmt.Sprint(e.Policy, e.Shadow))
	}
	if want := []string{"triedtrue", "againtrue", "afalse", "bfalse"}; !slices.Equal(names, want) {
		t.Errorf("got events of %q, want %q", names, want)
	}
}

// A middleware without OnDecision works otherwise.
func TestWithoutOnDecision(t *testing.T) {
	store := newHookStore(t, func(_ context.Context, r *store.Request) error {
		if r.Op != rule.Take {
			return errBroken
		}
		return nil
	})
	limiter, err := slidegate.New(store, slidegate.PerMinute(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, given := range map[string]Policy{"simple": {}, "shadow": {Shadow: true}, "after": {CostAfter: CostOfBytes(1)}} {
		given.Key = KeyFunc(func(*http.Request) (string, error) { return name, nil })
		m, err := New(limiter, Options{Policies: []Policy{given}})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		m.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: got status %d, want 404", name, w.Code)
		}
	}
}

// A settlement that fails is sent again a few times. If all attempts fail, that is reported, as an error without a decision.
func TestSettleFails(t *testing.T) {
	for _, trips := range []int{0, 1} {
		for fails, settled := range map[int]bool{0: true, 1: true, 3: true, 4: false} {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				store := newHookStore(t, func(_ context.Context, r *store.Request) error {
					if r.Op == rule.Settle {
						if attempts++; attempts <= fails {
							return errBroken
						}
					}
					return nil
				})
				store.trips = trips
				p := (&play{t: t}).over(store, Options{
					Timeout: -1, Policies: []Policy{{Name: "api", Cost: func(*http.Request) int64 { return 10 }, CostAfter: CostFromHandler()}},
				}, func(_ http.ResponseWriter, r *http.Request) { mustSetCost(t, r, 70) }, slidegate.PerMinute(100))
				if w := p.from("192.0.2.1"); w.Code != 200 {
					t.Errorf("got status %d, want 200", w.Code)
				}
				if err := p.limits.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				left, err := p.limits.Peek(t.Context(), "api", "192.0.2.1")
				if want := map[bool]int64{true: 30, false: 90}[settled]; err != nil || left.Decision.Remaining != want {
					t.Errorf("%d failures: %d left, %v; want %d", fails, left.Decision.Remaining, err, want)
				}
				if settled != (len(p.events) == 1) {
					t.Fatalf("%d failures: got %d events, want one, and another one if it was not settled", fails, len(p.events))
				}
				if e := p.last(); !settled && (!errors.Is(e.Err, errBroken) || e.Policy != "api" || e.Refused || e.Decision.At != 0) {
					t.Errorf("got event %+v, want errBroken for the policy api, no refusal and no decision", e)
				}
			})
		}
	}
}

// A layer below the limiter may decide when its store has failed. There is then nothing to report about what is left, and a
// refusal is 503, as if the middleware had decided.
func TestFlagsOfTheStore(t *testing.T) {
	for _, alone := range []bool{true, false} {
		for _, test := range []struct {
			allowed  bool
			flags    rule.Flags
			status   int
			reported bool
		}{
			{true, rule.FallbackOpen, 200, false},
			{false, rule.FallbackOpen, 429, false}, // refused before the outage
			{false, rule.FallbackClosed, 503, false},
			{true, rule.FallbackLocal, 200, true},
			{false, rule.FallbackLocal, 429, true},
			{false, rule.Cached, 429, true},
		} {
			store := &flaggedStore{hookStore: *newHookStore(t, nil), allowed: test.allowed, flags: test.flags}
			opts := Options{Policies: everyRequest(alone, Policy{Name: "api", Limits: []slidegate.Limit{slidegate.PerMinute(1)}})}
			p := (&play{t: t}).over(store, opts, nil)
			w := p.from("192.0.2.1")
			_, reported := w.Header()["Ratelimit"]
			_, retry := w.Header()["Retry-After"]
			if w.Code != test.status || reported != test.reported || retry != (w.Code == 429) {
				t.Errorf("alone %v, %+v: got status %d with %v; want %d, RateLimit present %v, and Retry-After exactly with 429",
					alone, test, w.Code, w.Header(), test.status, test.reported)
			}
			if e := p.last(); e.Decision.Flags != test.flags || e.Refused == test.allowed {
				t.Errorf("alone %v, %+v: got event %+v, want the flags %v and refused %v", alone, test, e, test.flags, !test.allowed)
			}
		}
	}
}

// When the store has failed, Options.Refuse writes the refusal. Retry-After is when the store is tried again.
func TestRefuseWhenClosed(t *testing.T) {
	for _, alone := range []bool{true, false} {
		p := (&play{t: t}).over(&broken{}, Options{
			Failure: store.FailClosed, Policies: everyRequest(alone, Policy{Name: "api", Limits: []slidegate.Limit{slidegate.PerMinute(1)}}),
			Refuse: func(w http.ResponseWriter, _ *http.Request, e Event) {
				if e.Decision.Flags == rule.FallbackClosed && e.Refused && errors.Is(e.Err, errBroken) {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			},
		}, nil)
		w := p.from("192.0.2.1")
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" || w.Header().Get("RateLimit") != "" || p.served != 0 {
			t.Errorf("got status %d with %v, served %d; want 503 with Retry-After, without RateLimit, served 0", w.Code, w.Header(), p.served)
		}
	}
}

// The bodies of requests that could not be decided.
func TestUnavailableBodies(t *testing.T) {
	for body, want := range map[Body]struct{ contentType, text string }{
		BodyProblem: {"application/problem+json", `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
			`"title":"Service unavailable","status":503,"detail":"The rate limit could not be checked.","retry_after":1}` + "\n"},
		BodyJSON: {"application/json", `{"error":"rate limit unavailable","retry_after":1}` + "\n"},
		BodyText: {"text/plain; charset=utf-8", "The rate limit could not be checked.\n"},
		BodyNone: {"", ""},
	} {
		p := (&play{t: t}).over(&broken{}, Options{Failure: store.FailClosed, Body: body}, nil, slidegate.PerMinute(1))
		w := p.from("192.0.2.1")
		if w.Code != 503 || w.Body.String() != want.text || w.Header().Get("Content-Type") != want.contentType ||
			w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Retry-After") != "1" || w.Header().Get("RateLimit") != "" {
			t.Errorf("body %d: got %d with %v\n%s\nwant 503 as %s with no-store, with Retry-After, without RateLimit\n%s",
				body, w.Code, w.Header(), w.Body, want.contentType, want.text)
		}
	}
}
