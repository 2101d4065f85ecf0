package httplimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
)

// discard is a response whose content is discarded.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// served returns a function that calls the middleware alone, in front of a handler that does nothing.
func served(t testing.TB, headers Headers, quota int64) func() {
	return servedBy(t, Options{Headers: headers}, slidegate.PerMinute(quota))
}

func servedBy(t testing.TB, opts Options, limits ...slidegate.Limit) func() {
	store := testkit.Must(memstore.New(memstore.Options{}))(t)
	limiter := testkit.Must(limiterOn(store, limits))(t)
	m := testkit.Must(New(limiter, opts))(t)
	handler := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest("GET", "/", nil)
	w := &discard{header: http.Header{}}
	return func() {
		clear(w.header)
		handler.ServeHTTP(w, r)
	}
}

// A request that matches one of several policies is as fast as with a single policy.
func TestAllocationsOfOneMatchingPolicy(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerMinute(1 << 40)}
	serve := servedBy(t, Options{Headers: HeadersNone, Policies: []Policy{
		{Name: "other", Limits: limits, Skip: func(*http.Request) bool { return true }},
		{Name: "this", Match: "/", Limits: limits, Cost: func(*http.Request) int64 { return 2 }},
	}})
	if got := testing.AllocsPerRun(1000, serve); got > 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func TestAllocations(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers Headers
		quota   int64
		most    float64
	}{
		{"admitted, no headers", HeadersNone, 1 << 40, 0},
		{"admitted, IETF", HeadersIETF, 1 << 40, 2},
		{"admitted, X", HeadersX, 1 << 40, 2},
		{"refused, IETF", HeadersIETF, 1, 3},
	} {
		serve := served(t, test.headers, test.quota)
		serve()
		if got := testing.AllocsPerRun(1000, serve); got > test.most {
			t.Errorf("%s: got %v allocations, want at most %v", test.name, got, test.most)
		}
	}
}

func BenchmarkServe(b *testing.B) {
	for name, headers := range map[string]Headers{"none": HeadersNone, "ietf": HeadersIETF, "x": HeadersX} {
		for verdict, quota := range map[string]int64{"admitted": 1 << 40, "refused": 1} {
			b.Run(name+"/"+verdict, func(b *testing.B) {
				serve := served(b, headers, quota)
				b.ReportAllocs()
				for b.Loop() {
					serve()
				}
			})
		}
	}
}

// BenchmarkServePolicies measures requests that need more than a key.
func BenchmarkServePolicies(b *testing.B) {
	limits := []slidegate.Limit{slidegate.PerMinute(1 << 40)}
	for name, policies := range map[string][]Policy{
		"cost":  {{Limits: limits, Cost: func(*http.Request) int64 { return 1 }}},
		"match": {{Limits: limits, Match: "/"}},
		"plan":  {{Limits: limits, Plan: func(*http.Request) (policy.Plan, error) { return policy.Limits(limits...), nil }}},
		"after": {{Limits: limits, CostAfter: CostFromHandler()}},
		"two":   {{Name: "a", Limits: limits}, {Name: "b", Limits: limits, Key: Global()}},
	} {
		b.Run(name, func(b *testing.B) {
			serve := servedBy(b, Options{Policies: policies})
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}
