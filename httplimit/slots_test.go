package httplimit

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// slots returns a named in-flight limit of n slots.
func slots(name string, n int64) slidegate.Limit {
	limit := slidegate.Slots(n, time.Minute)
	limit.Name = name
	return limit
}

// free returns how many slots of the address that httptest uses, or units, are left under a policy's limits.
func (p *play) free(name string) (left []int64) {
	p.t.Helper()
	if err := p.limits.Drain(context.Background()); err != nil {
		p.t.Fatal(err)
	}
	event, err := p.limits.Peek(context.Background(), name, "192.0.2.1")
	if err != nil {
		p.t.Fatal(err)
	}
	if event.Decision.Answers == nil {
		return []int64{event.Decision.Remaining}
	}
	for _, answer := range event.Decision.Answers {
		left = append(left, answer.Remaining)
	}
	return left
}

// wantFree checks what free returns.
func (p *play) wantFree(when, name string, want ...int64) {
	p.t.Helper()
	got := p.free(name)
	same := len(got) == len(want)
	for i := range want {
		same = same && got[i] == want[i]
	}
	if !same {
		p.t.Fatalf("%s: got %v left, want %v", when, got, want)
	}
}

// A request holds one slot while its handler runs, whatever its cost, and takes its cost from the other limits.
func TestSlotIsHeldWhileTheHandlerRuns(t *testing.T) {
	for _, cost := range []int64{0, 1, 7} {
		for _, panics := range []bool{false, true} {
			var p *play
			p = newPlay(t, Options{Policies: []Policy{{
				Name: "api", Limits: []slidegate.Limit{slots("slots", 2), named("units", 10)}, Cost: func(*http.Request) int64 { return cost },
			}}}, func(http.ResponseWriter, *http.Request) {
				p.wantFree("while the handler runs", "api", 1, 10-cost)
				if panics {
					panic(http.ErrAbortHandler)
				}
			})
			func() {
				defer func() {
					if got := recover(); panics != (got == http.ErrAbortHandler) {
						t.Errorf("handler panics %v: got panic %v", panics, got)
					}
				}()
				p.from("192.0.2.1")
			}()
			p.wantFree("afterwards", "api", 2, 10-cost)
		}
	}
}

// A rate limit that refuses leaves the slot free, and an in-flight limit that refuses does not charge the rate limit.
func TestSlotsAreTakenWithTheRest(t *testing.T) {
	var p *play
	var inner []int
	p = newPlay(t, Options{Policies: []Policy{{Name: "api", Limits: []slidegate.Limit{slots("slots", 1), named("units", 2)}}}},
		func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/outer" {
				inner = append(inner, p.from("192.0.2.1").Code)
				p.wantFree("while the handler runs", "api", 0, 1)
			}
		})
	outer := httptest.NewRequest("GET", "/outer", nil)
	if w := p.do(outer); w.Code != 200 || len(inner) != 1 || inner[0] != 429 {
		t.Errorf("got status %d, and inside it %v; want 200, and 429", w.Code, inner)
	}
	p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.1") }, 200, 429)
	p.wantFree("afterwards", "api", 1, 0)
	if p.served != 2 {
		t.Errorf("got %d served, want 2", p.served)
	}
}

// Plans and overrides can have in-flight limits too.
func TestSlotsOfPlansAndOverrides(t *testing.T) {
	for name, given := range map[string]Policy{
		"plan":     {Plan: func(*http.Request) (policy.Plan, error) { return policy.Limits(slots("s", 1)), nil }},
		"override": {Overrides: []policy.Override{{Key: "192.0.2.1", Limits: []slidegate.Limit{slots("s", 1)}}}},
	} {
		var p *play
		status := 0
		given.Name, given.Limits = "api", []slidegate.Limit{named("", 100)}
		p = newPlay(t, Options{Policies: []Policy{given}}, func(http.ResponseWriter, *http.Request) {
			if p.served == 1 {
				status = p.from("192.0.2.1").Code
			}
		})
		if w := p.from("192.0.2.1"); w.Code != 200 || status != 429 {
			t.Errorf("%s: got status %d, and %d inside it; want 200 and 429", name, w.Code, status)
		}
		if w := p.from("192.0.2.1"); w.Code != 200 || w.Header().Get("RateLimit") != `"api/s";r=0` {
			t.Errorf("%s: then got status %d with RateLimit %s; want 200 with \"api/s\";r=0", name, w.Code, w.Header().Get("RateLimit"))
		}
	}
}

// A shadow policy holds slots while requests run; the slots of a refused request are released immediately.
func TestSlotsInTheShadow(t *testing.T) {
	left := func(p *play) int64 {
		var v policy.Decision
		p.limits.set.Decide(t.Context(), rule.Peek, &engine.Part{Policy: 1, Key: "192.0.2.1", Cost: 1}, &v)
		return v.Decision.Remaining
	}
	var p *play
	p = newPlay(t, Options{Policies: []Policy{
		{Name: "live", Limits: []slidegate.Limit{named("", 1)}},
		{Name: "tried", Shadow: true, Limits: []slidegate.Limit{slots("", 5)}},
	}}, func(http.ResponseWriter, *http.Request) {
		if got := left(p); got != 4 {
			t.Errorf("while the handler runs: got %d left of the shadow, want 4", got)
		}
	})
	for i, status := range []int{200, 429} {
		if w := p.from("192.0.2.1"); w.Code != status {
			t.Errorf("request %d: got status %d, want %d", i, w.Code, status)
		}
		if got := left(p); got != 5 {
			t.Errorf("after request %d: got %d left of the shadow, want 5", i, got)
		}
	}
}

// With nested middlewares each holds its slot, and a refusal of the inner one leaves no slot held in the outer one.
func TestSlotsOfNestedMiddlewares(t *testing.T) {
	inner := newPlay(t, Options{Policies: []Policy{{Name: "inner", Limits: []slidegate.Limit{slots("", 2), named("units", 1)}}}}, nil)
	outer := newPlay(t, Options{Policies: []Policy{{Name: "outer", Limits: []slidegate.Limit{slots("", 1)}}}}, inner.handler.ServeHTTP)
	outer.want(func() *httptest.ResponseRecorder { return outer.from("192.0.2.1") }, 200, 429, 429)
	outer.wantFree("afterwards", "outer", 1)
	inner.wantFree("afterwards", "inner", 2, 0)
	// The same limit of the same store in both: a request needs two of its slots.
	twice := newPlay(t, Options{Policies: []Policy{{Name: "same", Limits: []slidegate.Limit{slots("", 1)}}}}, nil)
	around := twice.limits.Wrap(twice.handler)
	for range 3 {
		w := httptest.NewRecorder()
		around.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != 429 {
			t.Errorf("a middleware inside itself with one slot: got status %d, want 429", w.Code)
		}
		twice.wantFree("afterwards", "same", 1)
	}
}

// The correction by a CostAfter and the release of the slot are one request to the store, sent once.
func TestSettleAndReleaseTogether(t *testing.T) {
	var ops []rule.Op
	ids := map[rule.ID]int{}
	between := newHookStore(t, func(_ context.Context, r *store.Request) error {
		ops = append(ops, r.Op)
		ids[r.ID]++
		return nil
	})
	p := (&play{t: t}).over(between, Options{Policies: []Policy{{
		Name: "api", Limits: []slidegate.Limit{slots("slots", 2), named("units", 10)}, CostAfter: CostOfBytes(1),
	}}}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 4)) })
	p.from("192.0.2.1")
	if len(ops) != 2 || ops[0] != rule.Take || ops[1] != rule.Settle || len(ids) != 1 || ids[0] != 0 {
		t.Errorf("got ops %v with the ids %v, want Take and Settle with the same one", ops, ids)
	}
	p.wantFree("afterwards", "api", 2, 6)
}

// A negative cost and a CostAfter that panics still release the slot.
func TestSlotsOfWrongCosts(t *testing.T) {
	for name, after := range map[string]CostAfter{
		"negative": func(*http.Request, Response) int64 { return -1 }, "panics": func(*http.Request, Response) int64 { panic("a bug") },
	} {
		p := newPlay(t, Options{Policies: []Policy{{Name: "api", Limits: []slidegate.Limit{slots("slots", 2), named("units", 10)}, CostAfter: after}}}, nil)
		func() {
			defer func() {
				if got := recover(); (got != nil) != (name == "panics") {
					t.Errorf("%s: got panic %v", name, got)
				}
			}()
			p.from("192.0.2.1")
		}()
		p.wantFree(name, "api", 2, 9)
		if name == "negative" && p.last().Err == nil {
			t.Errorf("got last event %+v, want an error", p.last())
		}
	}
}

// A handler that leaves work behind keeps its slots for it; its cost is settled when it has returned.
func TestKeepSlots(t *testing.T) {
	var release func()
	inner := newPlay(t, Options{Policies: []Policy{{Name: "inner", Limits: []slidegate.Limit{slots("slots", 2), named("units", 10)}, CostAfter: CostFromHandler()}}},
		func(_ http.ResponseWriter, r *http.Request) {
			SetCost(r, 3)
			release = KeepSlots(r)
		})
	outer := newPlay(t, Options{Policies: []Policy{{Name: "outer", Limits: []slidegate.Limit{slots("", 1)}}}}, inner.handler.ServeHTTP)
	outer.from("192.0.2.1")
	inner.wantFree("the handler has returned", "inner", 1, 7)
	outer.wantFree("the handler has returned", "outer", 0)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(release)
	}
	wg.Wait()
	inner.wantFree("released", "inner", 2, 7)
	outer.wantFree("released", "outer", 1)
	KeepSlots(httptest.NewRequest("GET", "/", nil))() // it holds none
}

// SetCost and NeedsResponse depend on policies with a CostAfter, and not on in-flight limits.
func TestSlotsNeedNoResponse(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{{Limits: []slidegate.Limit{slots("", 2)}}}}, func(_ http.ResponseWriter, r *http.Request) {
		if SetCost(r, 2) == nil || NeedsResponse(r) {
			t.Error("got a policy that needs the cost or the response, want neither")
		}
	})
	p.from("192.0.2.1")
	p = afterPlay(t, CostFromHandler(), func(_ http.ResponseWriter, r *http.Request) {
		if !NeedsResponse(r) {
			t.Error("a policy with a CostAfter does not need the response, want it to")
		}
	})
	p.from("192.0.2.1")
}

// The fields of an in-flight limit: a quota without a window, what remains, and a time only if the client has to wait.
func TestHeadersOfSlots(t *testing.T) {
	for dialect, want := range map[Headers][2]string{
		HeadersIETF: {
			`Ratelimit-Policy: "s";q=1;qu="concurrent-requests", "m";q=3;w=60|Ratelimit: "s";r=0, "m";r=2;t=60`,
			`Ratelimit-Policy: "s";q=1;qu="concurrent-requests", "m";q=3;w=60|Ratelimit: "s";r=0;t=45, "m";r=2;t=45|Retry-After: 45`,
		},
		HeadersXDelta: {
			`X-Ratelimit-Limit: 1|X-Ratelimit-Remaining: 0`,
			`X-Ratelimit-Limit: 1|X-Ratelimit-Remaining: 0|X-Ratelimit-Reset: 45|Retry-After: 45`,
		},
		HeadersNone: {``, `Retry-After: 45`},
	} {
		var p *play
		var refused http.Header
		p = newPlay(t, Options{Headers: dialect, Body: BodyNone}, func(http.ResponseWriter, *http.Request) {
			p.wait(15 * time.Second)
			refused = p.from("192.0.2.1").Header()
		}, slots("s", 1), named("m", 3))
		admitted := p.from("192.0.2.1").Header()
		for i, h := range []http.Header{admitted, refused} {
			h.Del("Cache-Control")
			if got := allFields(h); got != want[i] {
				t.Errorf("dialect %d: got fields\n%s\nwant\n%s", dialect, got, want[i])
			}
		}
	}
}

// allFields formats a header in a fixed order.
func allFields(h http.Header) (text string) {
	for _, name := range []string{"Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Retry-After"} {
		if value := h.Get(name); value != "" {
			if text != "" {
				text += "|"
			}
			text += name + ": " + value
		}
		h.Del(name)
	}
	for name := range h {
		text += "|" + name
	}
	return text
}

// The body of a refusal for lack of a slot says so, and to try again sooner than Retry-After.
func TestBodiesOfSlots(t *testing.T) {
	for body, want := range map[Body]string{
		BodyText:    "Too many requests are being served at once. Try again in at most 60 seconds.\n",
		BodyJSON:    `{"error":"rate limited","limit":"s","retry_after":60}` + "\n",
		BodyProblem: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,"detail":"Too many requests are being served at once. Try again in at most 60 seconds.","violated-policies":["s"],"retry_after":60}` + "\n",
	} {
		var p *play
		p = newPlay(t, Options{Body: body}, func(http.ResponseWriter, *http.Request) {
			if w := p.from("192.0.2.1"); w.Code != 429 || w.Body.String() != want {
				t.Errorf("body %d: got %d %s, want 429 %s", body, w.Code, w.Body, want)
			}
		}, slots("s", 1))
		p.from("192.0.2.1")
	}
}

// A transport rejects in-flight limits, since it cannot hold slots.
func TestTransportRejectsSlots(t *testing.T) {
	limiter, err := slidegate.New(newHookStore(t, pass), slots("s", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewTransport(nil, TransportOptions{Limiter: limiter}); !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("got error %v, want ErrUnsupported", err)
	}
}

// A calendar limit has no window of a fixed length, and its time is the time to the end of the period.
func TestHeadersOfCalendarLimits(t *testing.T) {
	p := newPlay(t, Options{}, nil, slidegate.MustParseLimit("3/month zone=Europe/Berlin"), slidegate.MustParseLimit("5/day zone=UTC"))
	h := p.from("192.0.2.1").Header() // noon is 12:00 UTC on January 5th
	if got, want := h.Get("RateLimit-Policy"), `"3/month zone=Europe/Berlin";q=3, "5/day zone=UTC";q=5`; got != want {
		t.Errorf("got RateLimit-Policy %s, want %s", got, want)
	}
	if got, want := h.Get("RateLimit"), `"3/month zone=Europe/Berlin";r=2;t=2286000, "5/day zone=UTC";r=4;t=43200`; got != want {
		t.Errorf("got RateLimit %s, want %s", got, want)
	}
}

// A handler that continues after the middleware has returned, as inside http.TimeoutHandler, is too late to keep slots: it
// might release those of another request.
func TestKeepSlotsTooLate(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		var late *http.Request
		var release func()
		p := newPlay(t, Options{Policies: []Policy{{Name: "p", Limits: []slidegate.Limit{slots("", 2)}}}},
			func(_ http.ResponseWriter, r *http.Request) {
				late, release = r, func() {}
				if keeps {
					release = KeepSlots(r)
				}
			})
		p.from("192.0.2.1")
		release()
		p.wantFree("the first has ended", "p", 2)
		next := p.limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			KeepSlots(late)()
			p.wantFree("the second runs", "p", 1)
		}))
		next.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		p.wantFree("both have ended", "p", 2)
	}
}
