package envoy

import (
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// BenchmarkShouldRateLimit measures one descriptor that is admitted, one that is refused, and three together.
func BenchmarkShouldRateLimit(b *testing.B) {
	const rules = `
domain: d
descriptors:
- {key: free, rate_limit: {unit: year, requests_per_unit: 4000000000}}
- {key: full, rate_limit: {unit: year, requests_per_unit: 1}}
- key: path
  value: "/export/*"
  descriptors: [{key: client, rate_limit: {unit: year, requests_per_unit: 4000000000}}]
`
	service, err := New(newStore(b), []*Domain{mustParse(b, rules)}, Options{ResponseHeaders: true, OnRefused: func(gate.Refusal) {}})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		request *rls.RateLimitRequest
	}{
		{"admitted", request("d", 1, "free=192.0.2.1")},
		{"refused", request("d", 2, "full=192.0.2.1")},
		{"three", request("d", 1, "free=192.0.2.1", "path=/export/all,client=ann", "none=x")},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := service.ShouldRateLimit(b.Context(), c.request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
