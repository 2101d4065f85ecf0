package httplimit

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

var timesOf = regexp.MustCompile(`;t=[0-9]+`)

// newNested returns a middleware inside another over one store.
func newNested(t *testing.T, opts Options, outerLimit, innerLimit slidegate.Limit) (serve func() http.Header) {
	t.Helper()
	st := memstore.NewDefault()
	around := testkit.Must(New(testkit.Must(slidegate.New(st, outerLimit))(t), opts))(t)
	inside := testkit.Must(New(testkit.Must(slidegate.New(st, innerLimit))(t), opts))(t)
	mux := http.NewServeMux()
	mux.Handle("/", inside.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	handler := around.Wrap(mux)
	return func() http.Header {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return w.Header()
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
			serve := newNested(t, Options{Headers: test.headers}, test.outerLimit, test.innerLimit)
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
