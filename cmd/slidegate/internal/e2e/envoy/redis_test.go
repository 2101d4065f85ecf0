package envoy_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

const rules = `
domain: d
descriptors:
- {key: second, rate_limit: {unit: second, requests_per_unit: 3}}
- {key: minute, rate_limit: {unit: minute, requests_per_unit: 7}}
- {key: zero, rate_limit: {unit: minute, requests_per_unit: 0}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 4}}
- {key: shared, value: "x*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 5}}
`

func newService(t *testing.T, st store.Store) *envoy.Service {
	t.Helper()
	domain, err := envoy.Parse("test.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	service, err := envoy.New(st, []*envoy.Domain{domain}, envoy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// drawRequest draws a request with one to five descriptors.
func drawRequest(t *rapid.T) *rls.RateLimitRequest {
	ask := &rls.RateLimitRequest{Domain: "d", HitsAddend: rapid.Uint32Range(0, 4).Draw(t, "hits")}
	for range rapid.IntRange(1, 5).Draw(t, "descriptors") {
		d := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{
			Key:   rapid.SampledFrom([]string{"second", "minute", "zero", "shadow", "quota", "shared"}).Draw(t, "key"),
			Value: rapid.SampledFrom([]string{"x", "xy"}).Draw(t, "value"),
		}}}
		if rapid.Bool().Draw(t, "own") {
			d.HitsAddend = wrapperspb.UInt64(rapid.Uint64Range(0, 9).Draw(t, "ownHits"))
		}
		ask.Descriptors = append(ask.Descriptors, d)
	}
	return ask
}

// TestSameCodesInRedis checks that responses over Redis equal those over memory, which the tests of package envoy compare with a
// model of the original service.
func TestSameCodesInRedis(t *testing.T) {
	var micros atomic.Int64
	memory, err := memstore.New(memstore.Options{Now: func() rule.Micros { return rule.Micros(micros.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	redis, err := redisstore.New(redistest.Server(t).Client(t), redisstore.Options{Now: func() rule.Micros { return rule.Micros(micros.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	near, far := newService(t, memory), newService(t, redis)
	run, codes := int64(0), map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		run++
		micros.Store((1_699_999_980 + run*1000*60) * 1e6) // a time at which the last run counted nothing
		for range rapid.IntRange(1, 30).Draw(rt, "requests") {
			pause := rapid.SampledFrom([]int64{0, 250_000, 1_000_000, 20_000_000}).Draw(rt, "unit")
			micros.Add(pause * rapid.Int64Range(0, 3).Draw(rt, "pause"))
			ask := drawRequest(rt)
			want, err := near.ShouldRateLimit(t.Context(), ask)
			if err != nil {
				rt.Fatal(err)
			}
			got, err := far.ShouldRateLimit(t.Context(), ask)
			if err != nil {
				rt.Fatal(err)
			}
			if !proto.Equal(got, want) {
				rt.Fatalf("%v at %d: got %v, want %v", ask, micros.Load(), got, want)
			}
			codes[fmt.Sprint(got.GetOverallCode())]++
		}
	})
	if len(codes) != 2 {
		t.Errorf("the responses were %v", codes)
	}
}
