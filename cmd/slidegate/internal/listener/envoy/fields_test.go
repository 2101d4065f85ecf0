package envoy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const fivePerMinute = `
domain: d
descriptors:
- {key: k, rate_limit: {name: five, unit: minute, requests_per_unit: 5}}
- {key: none, rate_limit: {unit: minute, requests_per_unit: 0}}
`

// want fails unless the summary of the service's response is this.
func (r *rig) want(request *rls.RateLimitRequest, want string) *rls.RateLimitResponse {
	r.t.Helper()
	response := r.send(request)
	if got := summary(response); got != want {
		r.t.Errorf("%v: got %s, want %s", request, got, want)
	}
	return response
}

func TestDomainIsPartOfTheAddress(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute, strings.Replace(fivePerMinute, "domain: d", "domain: e", 1))
	r.want(request("d", 4, "k=a"), "OK: OK/1")
	r.want(request("e", 0, "k=a"), "OK: OK/4")
	r.want(request("unknown", 0, "k=a"), "OK: OK/-")
}

func TestHitsOfTheRequest(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	r.want(request("d", 0, "k=a"), "OK: OK/4") // the default is 1
	r.want(request("d", 3, "k=a"), "OK: OK/1")
}

func TestHitsOfTheDescriptor(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	own := request("d", 4, "k=a", "k=b", "k=c")
	own.Descriptors[0].HitsAddend = wrapperspb.UInt64(2)
	own.Descriptors[1].HitsAddend = wrapperspb.UInt64(0) // only peeks
	r.want(own, "OK: OK/3 OK/5 OK/1")
	r.want(own, "OVER: OK/1 OK/5 OVER/0")
	own.Descriptors[2].HitsAddend = wrapperspb.UInt64(0)
	r.want(own, "OVER: OVER/0 OK/5 OVER/0") // c has 8 of 5
	huge := request("d", 0, "k=huge")
	huge.Descriptors[0].HitsAddend = wrapperspb.UInt64(1 << 63)
	r.want(huge, "OVER: OVER/0")
	r.want(huge, "OVER: OVER/0")
	r.want(request("d", 0, "k=huge"), "OVER: OVER/0")
}

// A peek is over only if the count is beyond the limit, not at it.
func TestPeekAtTheLimit(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	look := request("d", 0, "k=a")
	look.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	r.want(request("d", 5, "k=a"), "OK: OK/0")
	r.want(look, "OK: OK/0")
	r.want(request("d", 1, "k=a"), "OVER: OVER/0")
	r.want(look, "OVER: OVER/0")
	banned := request("d", 0, "none=a")
	banned.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	r.want(banned, "OK: OK/0") // 0 of 0
	r.want(request("d", 0, "none=a"), "OVER: OVER/0")
	r.want(banned, "OVER: OVER/0") // 1 of 0
}

func TestNegativeHitsRefund(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	r.want(request("d", 5, "k=a"), "OK: OK/0")
	back := request("d", 2, "k=a")
	back.Descriptors[0].IsNegativeHits = true
	r.want(back, "OK: OK/2")
	r.want(request("d", 2, "k=a"), "OK: OK/0")
	back.Descriptors[0].HitsAddend = wrapperspb.UInt64(1) // the descriptor's own number takes precedence
	r.want(back, "OK: OK/1")
	back.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	r.want(back, "OK: OK/1")
	back.Descriptors[0].HitsAddend = wrapperspb.UInt64(1000) // never more than was counted
	r.want(back, "OK: OK/5")
	r.want(request("d", 6, "k=a"), "OVER: OVER/0")
	back.Descriptors[0].HitsAddend = wrapperspb.UInt64(2)
	r.want(back, "OK: OK/1") // a refused charge can be refunded too: 4 of 5
}

func limitOf(quota uint32, unit typev3.RateLimitUnit) *common.RateLimitDescriptor_RateLimitOverride {
	return &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: quota, Unit: unit}
}

func TestLimitOfTheDescriptor(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	req := func(domain, text string, hits uint32, limit *common.RateLimitDescriptor_RateLimitOverride) *rls.RateLimitRequest {
		made := request(domain, hits, text)
		made.Descriptors[0].Limit = limit
		return made
	}
	two := limitOf(2, typev3.RateLimitUnit_MINUTE)
	r.want(req("d", "x=y", 0, two), "OK: OK/1") // without any rule
	r.want(req("d", "x=y", 0, two), "OK: OK/0")
	response := r.want(req("d", "x=y", 0, two), "OVER: OVER/0")
	if current := response.Statuses[0].CurrentLimit; current.RequestsPerUnit != 2 || current.Unit != rls.RateLimitResponse_RateLimit_MINUTE ||
		current.Name != "" || current.UnitMultiplier != nil {
		t.Errorf("got the limit %v, want 2 per minute without a name", current)
	}
	r.want(req("d", "k=a", 0, two), "OK: OK/1")                                         // in place of the rule,
	r.want(request("d", 0, "k=a"), "OK: OK/3")                                          // on the same count
	r.want(req("d", "k=a", 0, limitOf(0, typev3.RateLimitUnit_MINUTE)), "OVER: OVER/0") // 3 of 0
	r.want(req("d", "k=a", 0, limitOf(9, typev3.RateLimitUnit_HOUR)), "OK: OK/8")       // another window
	r.want(req("unknown", "x=y", 0, two), "OK: OK/-")                                   // the domain must be known
	for unit, length := range map[typev3.RateLimitUnit]float64{
		typev3.RateLimitUnit_SECOND: 1, typev3.RateLimitUnit_DAY: 86400,
		typev3.RateLimitUnit_MONTH: 30 * 86400, typev3.RateLimitUnit_YEAR: 365 * 86400,
	} {
		r.set(0)
		one := limitOf(1, unit)
		text := "u=" + unit.String()
		end := length - float64(int64(base)%int64(length))
		r.want(req("d", text, 0, one), "OK: OK/0")
		r.set(end - 0.001)
		r.want(req("d", text, 0, one), "OVER: OVER/0")
		r.set(end)
		r.want(req("d", text, 0, one), "OK: OK/0")
	}
}

func TestUnitMultiplierOfTheDescriptor(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	req := request("d", 0, "x=y")
	req.Descriptors[0].Limit = limitOf(1, typev3.RateLimitUnit_MINUTE)
	req.Descriptors[0].Limit.UnitMultiplier = wrapperspb.UInt32(10)
	// base is 13 minutes past the hour, so the ten minutes end 7 minutes later.
	response := r.want(req, "OK: OK/0")
	if got := response.Statuses[0].CurrentLimit.GetUnitMultiplier().GetValue(); got != 10 {
		t.Errorf("got the multiplier %d, want 10", got)
	}
	if got := response.Statuses[0].DurationUntilReset.AsDuration().Minutes(); got != 7 {
		t.Errorf("got a reset in %v minutes, want 7", got)
	}
	r.set(7*60 - 0.001)
	r.want(req, "OVER: OVER/0")
	r.set(7 * 60)
	r.want(req, "OK: OK/0")
}

func TestCurrentLimitAndReset(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	for _, test := range []struct {
		at      float64
		seconds int64
	}{{0, 60}, {0.000001, 60}, {0.5, 60}, {1, 59}, {59, 1}, {59.9, 1}} {
		r.set(test.at)
		look := request("d", 0, "k=a")
		look.Descriptors[0].HitsAddend = wrapperspb.UInt64(0) // even if nothing was counted
		for _, req := range []*rls.RateLimitRequest{look, request("d", 1, fmt.Sprint("k=", test.at))} {
			st := r.send(req).Statuses[0]
			if got := st.DurationUntilReset; got.Seconds != test.seconds || got.Nanos != 0 {
				t.Errorf("at %g: got a reset in %v, want %d s", test.at, got, test.seconds)
			}
			if c := st.CurrentLimit; c.Name != "five" || c.RequestsPerUnit != 5 || c.Unit != rls.RateLimitResponse_RateLimit_MINUTE || c.UnitMultiplier != nil {
				t.Errorf("got the limit %v, want five of 5 per minute", c)
			}
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	long := strings.Repeat("x", MaxBytes)
	many := request("d", 0)
	for range MaxDescriptors + 1 {
		many.Descriptors = append(many.Descriptors, descriptor("k=a"))
	}
	deep := descriptor(strings.TrimSuffix(strings.Repeat("k=a,", MaxEntries+1), ","))
	limited := func(limit *common.RateLimitDescriptor_RateLimitOverride) *rls.RateLimitRequest {
		req := request("d", 0, "k=a")
		req.Descriptors[0].Limit = limit
		return req
	}
	zero := limitOf(1, typev3.RateLimitUnit_MINUTE)
	zero.UnitMultiplier = wrapperspb.UInt32(0)
	endless := limitOf(1, typev3.RateLimitUnit_YEAR)
	endless.UnitMultiplier = wrapperspb.UInt32(1<<32 - 1)
	r := newRig(t, Options{}, fivePerMinute)
	for _, test := range []struct {
		request *rls.RateLimitRequest
		want    string
	}{
		{request("", 0, "k=a"), "domain"},
		{request("d", 0), "descriptors"},
		{many, "at most 64, not 65"},
		{&rls.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{deep}}, "descriptors[0].entries: must be at most 32"},
		{request("d", 0, "k=a", "k="+long), "descriptors[1].entries: must have at most 65536 bytes"},
		{limited(limitOf(1, typev3.RateLimitUnit_UNKNOWN)), "descriptors[0].limit: unit"},
		{limited(limitOf(1, 99)), "descriptors[0].limit: unit"},
		{limited(zero), "descriptors[0].limit: unit_multiplier"},
		{limited(endless), "descriptors[0].limit: slidegate: invalid limit: window"},
	} {
		_, err := r.trySend(test.request)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want InvalidArgument with %q", err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "xxx") {
			t.Errorf("the error contains what the client sent")
		}
	}
	if n := r.store.calls.Load(); n != 0 {
		t.Errorf("got %d calls to the store, want none", n)
	}
	many.Descriptors = many.Descriptors[:MaxDescriptors] // 64 on one count of 5
	if got := r.send(many); len(got.Statuses) != MaxDescriptors || got.Statuses[4].Code != codeOK || got.Statuses[5].Code != codeOver {
		t.Errorf("64 descriptors: %s", summary(got))
	}
	if got := r.send(&rls.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{{}}}); summary(got) != "OK: OK/-" {
		t.Errorf("no entries: got %s", summary(got))
	}
}

func TestStoreIsCalledOnce(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	r.want(request("d", 0, "k=a", "k=b", "x=y", "none=c", "k=d"), "OVER: OK/4 OK/4 OK/- OVER/0 OK/4")
	if n := r.store.calls.Load(); n != 1 {
		t.Errorf("got %d calls to the store, want 1", n)
	}
	r.want(request("d", 0, "x=y"), "OK: OK/-")
	if n := r.store.calls.Load(); n != 1 {
		t.Errorf("got a call to the store without limits, want none")
	}
}

func TestStoreErrors(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	for _, test := range []struct {
		err  error
		want codes.Code
	}{
		{errors.New("connection refused"), codes.Unavailable},
		{fmt.Errorf("too late: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
		{fmt.Errorf("gone: %w", context.Canceled), codes.Canceled},
	} {
		r.store.fail.Store(&test.err)
		if got, err := r.trySend(request("d", 0, "k=a")); status.Code(err) != test.want {
			t.Errorf("%v: got %v and %v, want %v", test.err, got, err, test.want)
		}
	}
	r.store.fail.Store(nil)
	r.want(request("d", 0, "k=a"), "OK: OK/4")
}
