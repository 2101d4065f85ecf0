package envoy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument/instrumenttest"
)

const severalLimits = `
domain: d
descriptors:
- {key: minute, rate_limit: {name: m, unit: minute, requests_per_unit: 2}}
- {key: hour, rate_limit: {name: h, unit: hour, requests_per_unit: 3}}
- {key: q, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: qh, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
`

func headerText(list []*core.HeaderValue) string {
	var words []string
	for _, h := range list {
		words = append(words, h.GetKey()+"="+h.GetValue())
	}
	return strings.Join(words, " ")
}

func TestHeaders(t *testing.T) {
	r := newRig(t, Options{ResponseHeaders: true, RequestHeaders: true}, severalLimits)
	r.set(0.5)
	for i, test := range []struct {
		hits          uint32
		request       string
		response, not string
	}{
		// The least remaining is reported.
		{1, "minute=a hour=a", "RateLimit-Limit=2 RateLimit-Remaining=1 RateLimit-Reset=60", ""},
		{1, "minute=b hour=a", "RateLimit-Limit=2 RateLimit-Remaining=1 RateLimit-Reset=60", ""},
		{1, "minute=c hour=a", "RateLimit-Limit=3 RateLimit-Remaining=0 RateLimit-Reset=2820", ""}, // 47 minutes
		// If several refuse, the one that refuses for longest.
		{2, "minute=a hour=a", "RateLimit-Limit=3 RateLimit-Remaining=0 RateLimit-Reset=2820 Retry-After=2820", ""},
		{2, "hour=a minute=a", "RateLimit-Limit=3 RateLimit-Remaining=0 RateLimit-Reset=2820 Retry-After=2820", ""},
		{2, "minute=a", "RateLimit-Limit=2 RateLimit-Remaining=0 RateLimit-Reset=60 Retry-After=60", ""},
		{3, "minute=d", "RateLimit-Limit=2 RateLimit-Remaining=0 RateLimit-Reset=60", "Retry-After"}, // never
		{1, "nothing=x", "", ""},
		{1, "q=a qh=a", "RateLimit-Limit=1 RateLimit-Remaining=0 RateLimit-Reset=60", "Retry-After"},
		{1, "qh=a q=a", "RateLimit-Limit=1 RateLimit-Remaining=0 RateLimit-Reset=2820 Retry-After=60", ""}, // either suffices
		{1, "q=a qh=a", "RateLimit-Limit=1 RateLimit-Remaining=0 RateLimit-Reset=60 Retry-After=60", ""},
		{1, "s=a", "RateLimit-Limit=1 RateLimit-Remaining=0 RateLimit-Reset=60", "Retry-After"},
		{1, "s=a", "RateLimit-Limit=1 RateLimit-Remaining=0 RateLimit-Reset=60", "Retry-After"},
	} {
		response := r.send(request("d", test.hits, strings.Fields(test.request)...))
		if got := headerText(response.ResponseHeadersToAdd); got != test.response || test.not != "" && strings.Contains(got, test.not) {
			t.Errorf("%d: %s: got response headers %q, want %q", i, test.request, got, test.response)
		}
		want, _, _ := strings.Cut(test.response, " Retry-After")
		if got := headerText(response.RequestHeadersToAdd); got != want {
			t.Errorf("%d: %s: got request headers %q, want %q", i, test.request, got, want)
		}
	}
	plain := newRig(t, Options{}, severalLimits).send(request("d", 9, "minute=a"))
	if plain.ResponseHeadersToAdd != nil || plain.RequestHeadersToAdd != nil || plain.DynamicMetadata != nil {
		t.Errorf("without header options: got %v, want no headers", plain)
	}
}

func TestShadowOfTheWholeService(t *testing.T) {
	r := newRig(t, Options{Shadow: true, ResponseHeaders: true}, severalLimits)
	response := r.want(request("d", 3, "minute=a", "hour=a"), "OK: OVER/0 OK/0")
	if got := headerText(response.ResponseHeadersToAdd); strings.Contains(got, "Retry-After") {
		t.Errorf("an admitted client: got headers %s", got)
	}
}

func TestDynamicMetadata(t *testing.T) {
	r := newRig(t, Options{DynamicMetadata: true}, `
domain: d
descriptors:
- {key: a, metadata: {route: {a: 1, first: yes}, list: [x, null, true, 1.5]}, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: b, metadata: {route: {b: {deep: 2}, first: no}, list: 7}, rate_limit: {unit: minute, requests_per_unit: 9}}
- {key: c, rate_limit: {unlimited: true}, metadata: {no: 1}}`)
	check := func(hits uint32, want string) {
		t.Helper()
		expected := &structpb.Struct{}
		if err := protojson.Unmarshal([]byte(want), expected); err != nil {
			t.Fatal(err)
		}
		got := r.send(request("d", hits, "a=1", "b=2,x=", "b=2", "c=3")).DynamicMetadata
		if protojson.Format(got) != protojson.Format(expected) {
			t.Errorf("got %v\nwant %v", got, expected)
		}
	}
	const descriptors = `"domain": "d", "descriptors": [{"entries": ["a=1"]}, {"entries": ["b=2", "x="]}, {"entries": ["b=2"]}, {"entries": ["c=3"]}]`
	check(0, `{`+descriptors+`, "metadata": {"route": {"a": 1, "first": true, "b": {"deep": 2}}, "list": ["x", null, true, 1.5]}}`)
	check(1, `{`+descriptors+`, "hitsAddend": 1, "metadata": {"route": {"b": {"deep": 2}, "first": false}, "list": 7}}`) // a is over
}

// A limit that came with a descriptor is in the metadata, too.
func TestDynamicMetadataOfOverrides(t *testing.T) {
	r := newRig(t, Options{DynamicMetadata: true}, fivePerMinute)
	req := addLimited(addLimited(request("d", 0, "k=a"), "k=b", typev3.RateLimitUnit_DAY, 1), "k=c", typev3.RateLimitUnit_HOUR, 3)
	req.Descriptors[1].HitsAddend = wrapperspb.UInt64(2)
	var limits []string
	for _, d := range r.send(req).GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues() {
		limits = append(limits, d.GetStructValue().GetFields()["limit"].GetStringValue())
	}
	want := []string{"", "requests_per_unit:5 unit:DAY", "requests_per_unit:5 unit:HOUR unit_multiplier:{value:3}"}
	if !slices.Equal(limits, want) {
		t.Errorf("got %q, want %q", limits, want)
	}
}

// With Options.Quota every rule is in quota mode: a request is refused only if all of its rules are over their limits.
func TestQuotaModeOfTheWholeService(t *testing.T) {
	const rules = "domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}\n- {key: b, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
	r := newRig(t, Options{Quota: true}, rules)
	r.want(request("d", 0, "a=1", "b=1"), "OK: OK/0 OK/1")
	r.want(request("d", 0, "a=1", "b=1"), "OK: OVER/0 OK/0")
	r.want(request("d", 0, "a=1", "b=1"), "OVER: OVER/0 OVER/0")
	// As in the original, a descriptor without a rule is one that is not over, in a domain without rules too.
	r.want(request("d", 0, "a=1", "none=1"), "OK: OVER/0 OK/-")
	r.want(request("d", 0, "a=1"), "OVER: OVER/0")
	r.want(request("nowhere", 0, "a=1"), "OK: OK/-")
	brought := addLimited(request("d", 0, "a=1"), "x=1", typev3.RateLimitUnit_HOUR, 1)
	r.want(brought, "OK: OVER/0 OK/4")
	r = newRig(t, Options{}, rules)
	r.want(request("d", 0, "a=1", "b=1"), "OK: OK/0 OK/1")
	r.want(request("d", 0, "a=1", "b=1"), "OVER: OVER/0 OK/0")

	// A rule that another one replaces is not over either, and one that is unlimited does not count at all.
	r = newRig(t, Options{Quota: true}, "domain: d\ndescriptors:\n"+
		"- {key: a, rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: old}]}}\n"+
		"- {key: b, rate_limit: {name: old, unit: hour, requests_per_unit: 9}}\n"+
		"- {key: free, rate_limit: {unlimited: true}}\n")
	r.want(request("d", 0, "a=1", "b=1"), "OK: OK/0 OK/-")
	r.want(request("d", 0, "a=1", "b=1"), "OK: OVER/0 OK/-")
	r.want(request("d", 0, "a=1", "free=1"), "OVER: OVER/0 OK/inf")
}

// OnUnmatched is called for requests of which no descriptor matches a rule.
func TestOnUnmatched(t *testing.T) {
	calls := 0
	r := newRig(t, Options{OnUnmatched: func() { calls++ }}, fivePerMinute)
	for _, test := range []struct {
		request *rls.RateLimitRequest
		calls   int
	}{
		{request("d", 0, "k=a"), 0}, {request("d", 0, "k=a", "unknown=1"), 0}, {request("d", 0, "unknown=1"), 1}, {request("nowhere", 0, "k=a", "k=b"), 1},
		{addLimited(request("d", 0, "unknown=1"), "x=1", typev3.RateLimitUnit_HOUR, 1), 0},
	} {
		calls = 0
		if _, err := r.service.ShouldRateLimit(t.Context(), test.request); err != nil || calls != test.calls {
			t.Errorf("%v: got %d calls and the error %v, want %d", test.request, calls, err, test.calls)
		}
	}
}

func TestJSON(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	server := httptest.NewServer(r.service.Handler())
	defer server.Close()
	post := func(body string) (int, string) {
		t.Helper()
		response, err := http.Post(server.URL+"/json", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(bytes.ReplaceAll(text, []byte(" "), nil))
	}
	const req = `{"domain": "d", "hits_addend": 4, "descriptors": [{"entries": [{"key": "k", "value": "a"}]}]}`
	const current = `"currentLimit":{"name":"five","requestsPerUnit":5,"unit":"MINUTE"}`
	want := `{"overallCode":"OK","statuses":[{"code":"OK",` + current + `,"limitRemaining":1,"durationUntilReset":"60s"}]}`
	if code, text := post(req); code != 200 || text != want {
		t.Errorf("got %d %s\nwant 200 %s", code, text, want)
	}
	want = `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT",` + current + `,"durationUntilReset":"60s"}]}`
	if code, text := post(req); code != 429 || text != want {
		t.Errorf("got %d %s\nwant 429 %s", code, text, want)
	}
	for _, wrong := range []string{``, `[]`, `{"domian": "d"}`, `{"domain": "d"}`, `{"domain":"d","descriptors":[{}],"x":"` + strings.Repeat("y", maxBody) + `"}`} {
		if code, text := post(wrong); code != 400 {
			t.Errorf("%.30s: got %d %s, want 400", wrong, code, text)
		}
	}
	failure := fmt.Errorf("down")
	r.store.fail.Store(&failure)
	if code, _ := post(req); code != 500 {
		t.Errorf("with the store down: got %d, want 500", code)
	}
}

func TestHealth(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	server := httptest.NewServer(r.service.Handler())
	defer server.Close()
	check := func(want healthpb.HealthCheckResponse_ServingStatus, code int) {
		t.Helper()
		for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
			got, err := healthpb.NewHealthClient(r.conn).Check(context.Background(), &healthpb.HealthCheckRequest{Service: name})
			if err != nil || got.Status != want {
				t.Errorf("service %q: got %v, %v, want %v", name, got, err, want)
			}
		}
		response, err := http.Get(server.URL + "/healthcheck")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != code {
			t.Errorf("/healthcheck: got %d, want %d", response.StatusCode, code)
		}
	}
	check(healthpb.HealthCheckResponse_SERVING, 200)
	r.service.Drain()
	check(healthpb.HealthCheckResponse_NOT_SERVING, 500)
	r.want(request("d", 0, "k=a"), "OK: OK/4") // pending requests are still served
}

func TestReflection(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	stream, err := reflectionpb.NewServerReflectionClient(r.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(req); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil || !strings.Contains(answer.String(), "envoy.service.ratelimit.v3.RateLimitService") {
		t.Errorf("got %v, %v, want it to list envoy.service.ratelimit.v3.RateLimitService", answer, err)
	}
}

func TestMetrics(t *testing.T) {
	reader, provider := instrumenttest.New()
	r := newRig(t, Options{MeterProvider: provider}, severalLimits)
	override := request("d", 0, "x=secret")
	override.Descriptors[0].Limit = limitOf(1, 2)
	r.want(override, "OK: OK/0")
	r.want(request("d", 3, "minute=secret", "hour=secret", "s=secret"), "OVER: OVER/0 OK/0 OK/0")
	r.want(request("unknown", 0, "minute=secret"), "OK: OK/-")
	if _, err := r.trySend(request("", 0, "x=secret")); err == nil {
		t.Error("got no error, want one")
	}
	if err := r.service.Reload([]*Domain{mustParse(t, severalLimits)}); err != nil {
		t.Fatal(err)
	}
	r.want(request("d", 0, "minute=secret"), "OVER: OVER/0")
	got := reader.Read(t)
	series := len(got) // all are there from the start
	maps.DeleteFunc(got, func(_ string, n int64) bool { return n == 0 })
	if zeros := series - len(got); zeros != 6*3-4+2 {
		t.Errorf("got %d series with 0, want those of five rules and overrides by three outcomes, and of three errors, but for five", zeros)
	}
	want := map[string]int64{
		"envoy.decisions{domain=d,outcome=ok,rule=override}":  1,
		"envoy.decisions{domain=d,outcome=over_limit,rule=m}": 2,
		"envoy.decisions{domain=d,outcome=ok,rule=h}":         1,
		"envoy.decisions{domain=d,outcome=shadow,rule=d.s}":   1,
		"envoy.errors{error.type=invalid}":                    1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
