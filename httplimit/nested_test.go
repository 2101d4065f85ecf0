package httplimit

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

var timesOf = regexp.MustCompile(`;t=[0-9]+`)

// logged returns what is logged until the test ends.
func logged(t *testing.T) *bytes.Buffer {
	before, text := slog.Default(), new(bytes.Buffer)
	slog.SetDefault(slog.New(slog.NewTextHandler(text, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return text
}

// newNested returns a middleware inside another, and the events of each.
func newNested(t *testing.T, outerStore, innerStore store.Store, outer, inner Options, outerLimit, innerLimit slidegate.Limit) (
	serve func() http.Header, outerEvents, innerEvents *[]Event,
) {
	t.Helper()
	outerEvents, innerEvents = new([]Event), new([]Event)
	outer.OnDecision = func(_ *http.Request, e Event) { *outerEvents = append(*outerEvents, e) }
	inner.OnDecision = func(_ *http.Request, e Event) { *innerEvents = append(*innerEvents, e) }
	around := testkit.Must(New(testkit.Must(slidegate.New(outerStore, outerLimit))(t), outer))(t)
	inside := testkit.Must(New(testkit.Must(slidegate.New(innerStore, innerLimit))(t), inner))(t)
	mux := http.NewServeMux()
	mux.Handle("/", inside.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	handler := around.Wrap(mux)
	return func() http.Header {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", "ann-the-secret")
		handler.ServeHTTP(w, r)
		return w.Header()
	}, outerEvents, innerEvents
}

// A middleware inside another that charges the same limit of the same store for the same key reports it, in its events and once
// in the log; others do not.
func TestOneRequestIsChargedTwice(t *testing.T) {
	newStore := func() store.Store { return testkit.Must(memstore.New(memstore.Options{}))(t) }
	layered := func(st store.Store) store.Store {
		return refusals.New(coalesce.New(st, coalesce.Options{}), refusals.Options{})
	}
	visits, other := named("visits", 100), named("other", 100)
	byUser := Options{Policies: []Policy{{Key: ByHeader("X-User")}}}
	after := Options{Policies: []Policy{{CostAfter: CostFromHandler()}}}
	free := Options{Policies: []Policy{{Cost: func(*http.Request) int64 { return 0 }}}}
	same, apart := newStore(), newStore()
	for _, test := range []struct {
		name                   string
		outerStore, innerStore store.Store
		outer, inner           Options
		outerLimit, innerLimit slidegate.Limit
		twice                  bool
	}{
		{"the same", same, same, Options{}, Options{}, visits, visits, true},
		{"without a name", same, same, Options{}, Options{}, slidegate.PerMinute(100), slidegate.PerMinute(100), true},
		{"another quota", same, same, Options{}, Options{}, visits, named("visits", 5), true},
		{"in the shadow", same, same, Options{}, Options{Policies: []Policy{{Shadow: true}}}, visits, visits, true},
		{"through layers", layered(same), same, Options{}, Options{}, visits, visits, true},
		{"settled afterwards", same, same, after, after, visits, visits, true},
		{"of the same policy", same, same, Options{Policies: []Policy{{Name: "visits"}}}, Options{}, slidegate.PerMinute(100), visits, true},
		{"without a header field", same, same, Options{Headers: HeadersNone}, Options{Headers: HeadersNone}, visits, visits, true},
		{"another limit", same, same, Options{}, Options{}, visits, other, false},
		{"another store", same, apart, Options{}, Options{}, visits, visits, false},
		{"another key", same, same, Options{}, byUser, visits, visits, false},
		{"another policy", same, same, Options{}, Options{Policies: []Policy{{Name: "own"}}}, visits, visits, false},
		{"nothing charged", same, same, free, Options{}, visits, visits, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := logged(t)
			serve, outer, inner := newNested(t, test.outerStore, test.innerStore, test.outer, test.inner, test.outerLimit, test.innerLimit)
			for range 3 {
				serve()
			}
			for i, event := range *inner {
				if event.ChargedTwice != test.twice {
					t.Errorf("event %d of the inner middleware: got Twice %t, want %t", i, event.ChargedTwice, test.twice)
				}
			}
			for i, event := range *outer {
				if event.ChargedTwice {
					t.Errorf("event %d of the outer middleware: got Twice, want it not set", i)
				}
			}
			if len(*inner) != 3 {
				t.Errorf("got %d events of the inner middleware, want 3", len(*inner))
			}
			lines := strings.Count(text.String(), "charged twice")
			if lines != map[bool]int{true: 1}[test.twice] || strings.Contains(text.String(), "ann-the-secret") {
				t.Errorf("got %d log lines, want one if Twice is %t, without the key: %s", lines, test.twice, text)
			}
		})
	}
}

// A refusal caused by a double charge reports it too.
func TestARefusalOfOneChargedTwice(t *testing.T) {
	logged(t)
	st := testkit.Must(memstore.New(memstore.Options{}))(t)
	serve, _, inner := newNested(t, st, st, Options{}, Options{}, named("visits", 3), named("visits", 3))
	serve()
	serve()
	if last := (*inner)[len(*inner)-1]; len(*inner) != 2 || !last.Refused || !last.ChargedTwice {
		t.Errorf("the last of %d events: got %+v, want a refusal that is charged twice", len(*inner), last)
	}
}

// A middleware around itself is detected at the second request, by its fields in the response.
func TestAMiddlewareAroundItself(t *testing.T) {
	for name, headers := range map[string]Headers{"IETF": HeadersIETF, "X": HeadersX} {
		text := logged(t)
		var twice []bool
		limiter := testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t), named("visits", 100)))(t)
		m := testkit.Must(New(limiter, Options{
			Headers:    headers,
			OnDecision: func(_ *http.Request, e Event) { twice = append(twice, e.ChargedTwice) },
		}))(t)
		handler := m.Wrap(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		for range 3 {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}
		if len(twice) != 6 || twice[2] || !twice[3] || twice[4] || !twice[5] || strings.Count(text.String(), "charged twice") != 1 {
			t.Errorf("%s: got Twice %t, want it for the inner middleware from the second request on; logged: %s", name, twice, text)
		}
	}
}

// The fields that the outer middleware wrote stay in the response.
func TestHeadersOfNestedMiddlewares(t *testing.T) {
	for _, test := range []struct {
		name                   string
		headers                Headers
		outerLimit, innerLimit slidegate.Limit
		requests               int
		want                   string // of the fields, without times
	}{
		{"IETF", HeadersIETF, named("all", 100), named("login", 5), 1,
			`Ratelimit-Policy: "all";q=100;w=60, "login";q=5;w=60|Ratelimit: "all";r=99, "login";r=4`},
		{"IETF, refused inside", HeadersIETF, named("all", 100), named("login", 1), 2,
			`Ratelimit-Policy: "all";q=100;w=60, "login";q=1;w=60|Ratelimit: "all";r=98, "login";r=0|Retry-After`},
		{"IETF, the same limit", HeadersIETF, named("all", 100), named("all", 100), 1, `Ratelimit-Policy: "all";q=100;w=60|Ratelimit: "all";r=98`},
		{"IETF, a name with a comma and a quote", HeadersIETF, named(`a", b;r=1`, 100), named("login", 5), 1,
			`Ratelimit-Policy: "a\", b;r=1";q=100;w=60, "login";q=5;w=60|Ratelimit: "a\", b;r=1";r=99, "login";r=4`},
		{"X, less inside", HeadersXDelta, named("all", 100), named("login", 5), 1, `X-Ratelimit-Limit: 5|X-Ratelimit-Remaining: 4`},
		{"X, less outside", HeadersXDelta, named("all", 5), named("login", 100), 1, `X-Ratelimit-Limit: 5|X-Ratelimit-Remaining: 4`},
		{"X, refused inside", HeadersX, named("all", 2), named("login", 1), 2, `X-Ratelimit-Limit: 1|X-Ratelimit-Remaining: 0|Retry-After`},
		{"draft 3", HeadersDraft03, named("all", 5), named("login", 100), 1, `Ratelimit-Limit: 5|Ratelimit-Remaining: 4`},
		{"none", HeadersNone, named("all", 5), named("login", 100), 1, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			logged(t)
			st := testkit.Must(memstore.New(memstore.Options{}))(t)
			opts := Options{Headers: test.headers}
			serve, _, _ := newNested(t, st, st, opts, opts, test.outerLimit, test.innerLimit)
			var h http.Header
			for range test.requests {
				h = serve()
			}
			if got := withoutTimes(h); got != test.want {
				t.Errorf("got fields\n%s, want\n%s", got, test.want)
			}
		})
	}
}

// withoutTimes formats the fields about limits in one line, without their seconds.
func withoutTimes(h http.Header) string {
	var all []string
	for _, name := range []string{"Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "Ratelimit-Limit", "Ratelimit-Remaining"} {
		if values := h[name]; values != nil {
			all = append(all, name+": "+timesOf.ReplaceAllString(strings.Join(values, "|"), ""))
		}
	}
	if h["Retry-After"] != nil {
		all = append(all, "Retry-After")
	}
	return strings.Join(all, "|")
}

// The later of two Retry-After stays.
func TestLaterRetryAfter(t *testing.T) {
	d := slidegate.Decision{RetryAfter: 5e9}
	for before, want := range map[string]string{"": "5", "3": "5", "7": "7", "Wed, 21 Oct 2026 07:28:00 GMT": "5"} {
		h := http.Header{}
		if before != "" {
			h.Set("Retry-After", before)
		}
		HeadersNone.Write(h, nil, &d, true)
		if got := h.Get("Retry-After"); got != want {
			t.Errorf("after %q: got %q, want %q", before, got, want)
		}
	}
}
