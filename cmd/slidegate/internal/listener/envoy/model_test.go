package envoy

import (
	"fmt"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

const modelFile = `
domain: d
descriptors:
- {key: second, rate_limit: {unit: second, requests_per_unit: 3}}
- {key: minute, rate_limit: {unit: minute, requests_per_unit: 7}}
- {key: zero, rate_limit: {unit: minute, requests_per_unit: 0}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 4}}
- {key: shared, value: "x*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 5}}
`

// model behaves like the original: it adds the hits to a counter that is named after the descriptor and the start of
// the window, and compares afterwards.
type model map[string]uint64

func (m model) respond(request *rls.RateLimitRequest, second int64) string {
	over, quotas, quotasOver, text := false, 0, 0, ""
	for _, d := range request.Descriptors {
		entry := d.Entries[0]
		rule := map[string]struct {
			limit  uint64
			length int64
		}{"second": {3, 1}, "minute": {7, 60}, "zero": {0, 60}, "shadow": {2, 60}, "quota": {4, 60}, "shared": {5, 60}}[entry.Key]
		hits := max(1, uint64(request.HitsAddend))
		if d.HitsAddend != nil {
			hits = d.HitsAddend.Value
		}
		name := entry.Key + "_" + entry.Value
		if entry.Key == "shared" {
			name = "shared_x*"
		}
		name = fmt.Sprint(name, "_", second/rule.length*rule.length)
		m[name] += hits
		switch count := m[name]; {
		case count <= rule.limit:
			text += fmt.Sprintf(" OK/%d", rule.limit-count)
		case entry.Key == "shadow":
			text += " OK/0"
		default:
			text += " OVER/0"
			over = over || entry.Key != "quota"
			quotasOver += map[bool]int{true: 1}[entry.Key == "quota"]
		}
		quotas += map[bool]int{true: 1}[entry.Key == "quota"]
	}
	if over || quotas > 0 && quotas == quotasOver {
		return "OVER:" + text
	}
	return "OK:" + text
}

// drawRequest returns a request of one to five descriptors.
func drawRequest(t *rapid.T) *rls.RateLimitRequest {
	req := &rls.RateLimitRequest{Domain: "d", HitsAddend: rapid.Uint32Range(0, 4).Draw(t, "hits")}
	for range rapid.IntRange(1, 5).Draw(t, "descriptors") {
		key := rapid.SampledFrom([]string{"second", "minute", "zero", "shadow", "quota", "shared"}).Draw(t, "key")
		d := descriptor(key + "=" + rapid.SampledFrom([]string{"x", "xy"}).Draw(t, "value"))
		if rapid.Bool().Draw(t, "own") {
			d.HitsAddend = wrapperspb.UInt64(rapid.Uint64Range(0, 9).Draw(t, "ownHits"))
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

// checkLikeModel compares the service to the model with random requests.
func checkLikeModel(t *testing.T, r *rig) {
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := model{}
		clock := float64(run * 1000 * 60) // the last run counted nothing there
		for range rapid.IntRange(1, 30).Draw(rt, "requests") {
			clock += float64(rapid.IntRange(0, 3).Draw(rt, "pause")) * rapid.SampledFrom([]float64{0, 0.25, 1, 20}).Draw(rt, "unit")
			r.set(clock)
			req := drawRequest(rt)
			want := m.respond(req, base+int64(clock))
			response, err := r.service.ShouldRateLimit(t.Context(), req)
			if err != nil {
				rt.Fatal(err)
			}
			if got := summary(response); got != want {
				rt.Fatalf("%v at %g: got %s, want %s", req, clock, got, want)
			}
		}
	})
}

func TestCodesOfTheOriginal(t *testing.T) { checkLikeModel(t, newRig(t, Options{}, modelFile)) }
