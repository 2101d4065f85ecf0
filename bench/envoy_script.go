package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// envoyRules is the file of rules that both services read.
const envoyRules = `
domain: bench
descriptors:
- {key: second, rate_limit: {unit: second, requests_per_unit: 4}}
- {key: minute, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: hour, rate_limit: {unit: hour, requests_per_unit: 6}}
- {key: day, rate_limit: {unit: day, requests_per_unit: 7}}
- {key: zero, rate_limit: {unit: minute, requests_per_unit: 0}}
- {key: wild, value: "a*", rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: wild, value: "ab*", rate_limit: {unit: minute, requests_per_unit: 4}}
- {key: wild, value: abc, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: wild, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: free, rate_limit: {unlimited: true}}
- {key: noted, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 3}}
- {key: none}
- {key: named, rate_limit: {name: base, unit: minute, requests_per_unit: 2}}
- {key: instead, rate_limit: {name: more, unit: minute, requests_per_unit: 6, replaces: [{name: base}]}}
- key: outer
  rate_limit: {unit: minute, requests_per_unit: 9}
  descriptors:
  - {key: inner, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: inner, value: x, rate_limit: {unit: hour, requests_per_unit: 4}}
  - key: deeper
    descriptors:
    - {key: deepest, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: ample, rate_limit: {unit: hour, requests_per_unit: 4000000000}}
`

// envoyScript returns the requests of one play. Values end in the name of the play, so that every play begins with new counts.
func envoyScript(seed uint64, play string, requests int) []*rls.RateLimitRequest {
	random := rand.New(rand.NewPCG(1, seed))
	pick := func(among ...string) string { return among[random.IntN(len(among))] }
	entry := func(key, value string) *common.RateLimitDescriptor_Entry {
		return &common.RateLimitDescriptor_Entry{Key: key, Value: value}
	}
	var script []*rls.RateLimitRequest
	for range requests {
		request := &rls.RateLimitRequest{Domain: pick("bench", "bench", "bench", "bench", "bench", "bench", "bench", "unknown")}
		if random.IntN(3) == 0 {
			request.HitsAddend = uint32(random.IntN(9))
		}
		for range 1 + random.IntN(4) {
			key := pick("second", "minute", "hour", "day", "zero", "wild", "shadow", "free", "noted", "none", "named", "instead", "outer", "nobody")
			value := pick("", "a", "ab", "b", "x") + play
			if key == "wild" && random.IntN(3) == 0 {
				value = pick("abc", "a") // counted across plays, by both services
			}
			d := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{entry(key, value)}}
			switch {
			case key == "outer" && random.IntN(3) > 0:
				d.Entries = append(d.Entries, entry(pick("inner", "deeper", "other"), pick("x", "y")))
				if random.IntN(2) == 0 {
					d.Entries = append(d.Entries, entry("deepest", pick("x", "y")))
				}
			case random.IntN(8) == 0:
				units := []typev3.RateLimitUnit{typev3.RateLimitUnit_MINUTE, typev3.RateLimitUnit_HOUR, typev3.RateLimitUnit_DAY}
				d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(random.IntN(5)), Unit: units[random.IntN(3)]}
				// A key has one unit: the original counts units together whose windows start at the same time, as those of an hour and a
				// day do in the first hour of the day.
				d.Entries[0].Key += "-" + d.Limit.Unit.String()
			}
			request.Descriptors = append(request.Descriptors, d)
		}
		script = append(script, request)
	}
	return script
}

// envoyText formats what must be equal: all codes, what remains, and the limits. The time until reset may differ by a second, and
// this version does not return the name of a limit.
func envoyText(response *rls.RateLimitResponse) string {
	text := response.GetOverallCode().String()
	for _, st := range response.GetStatuses() {
		text += fmt.Sprintf(" [%v %d of %d/%v]", st.GetCode(), st.GetLimitRemaining(),
			st.GetCurrentLimit().GetRequestsPerUnit(), st.GetCurrentLimit().GetUnit())
	}
	return text
}

// playScript sends all servers the same requests in turn. It returns how many responses were compared, and the
// differences. A play during which a second ended is useless for limits per second, so there are many short plays.
func (r *run) playScript(ctx context.Context, servers []*envoyServer, plays int) (compared int, differences []string, err error) {
	for play := 0; play < plays; {
		name := fmt.Sprintf("-%d-%d", play, time.Now().UnixNano())
		script := envoyScript(uint64(play), name, 60)
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 5*time.Millisecond)))
		began := time.Now().Unix()
		texts := make([][]string, len(servers))
		for _, request := range script {
			for i, s := range servers {
				response, err := s.client.ShouldRateLimit(ctx, request)
				if err != nil {
					return compared, differences, fmt.Errorf("%s: %w", s.name, err)
				}
				texts[i] = append(texts[i], envoyText(response))
			}
		}
		if time.Now().Unix() != began {
			r.logf("envoy: the second ended during a play; it is played again")
			if ctx.Err() != nil {
				return compared, differences, ctx.Err()
			}
			continue
		}
		play++
		for i := 1; i < len(servers); i++ {
			for k := range script {
				compared++
				if texts[i][k] != texts[0][k] {
					differences = append(differences, fmt.Sprintf("%v: %s returned %s, %s returned %s",
						script[k], servers[0].name, texts[0][k], servers[i].name, texts[i][k]))
				}
			}
		}
	}
	return compared, differences, nil
}

// envoyRequest returns a request with one descriptor with one entry.
func envoyRequest(key, value string) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}},
	}}
}
