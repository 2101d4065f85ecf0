package envoy

import (
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What our additions to the file do, derived by hand from the decision rule.
var additionsTests = []struct {
	name  string
	file  string
	steps []step
}{
	{"sliding-window", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 4, algorithm: sliding-window}}`, []step{
		{59, 4, "k=a", "OK: OK/0"},
		{60, 0, "k=a", "OVER: OVER/0"}, // a fixed window would be free
		{75, 0, "k=a", "OK: OK/0"},     // 4 * 45/60 = 3 are left of the last minute
		{75, 0, "k=a", "OVER: OVER/0"}, // and refusals are not counted:
		{90, 0, "k=a", "OK: OK/0"},     // 2 + 1 + 1
	}},
	{"overlap", `
domain: d
descriptors:
- {key: up, rate_limit: {unit: minute, requests_per_unit: 4, algorithm: sliding-window, overlap: up}}
- {key: down, rate_limit: {unit: minute, requests_per_unit: 4, algorithm: sliding-window, overlap: down}}
- {key: whole, rate_limit: {unit: minute, requests_per_unit: 4, algorithm: sliding-window, overlap: whole}}`, []step{
		{59, 4, "up=a down=a whole=a", "OK: OK/0 OK/0 OK/0"},
		{61, 0, "up=a", "OVER: OVER/0"},       // 4 * 59/60 is 4 rounded up
		{61, 0, "down=a", "OK: OK/0"},         // and 3 rounded down
		{119.9, 0, "whole=a", "OVER: OVER/0"}, // all of the last minute until it has passed
		{120, 0, "whole=a", "OK: OK/3"},
	}},
	{"segments", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 4, algorithm: sliding-window, segments: 6}}`, []step{
		{1, 4, "k=a", "OK: OK/0"},
		{60, 0, "k=a", "OVER: OVER/0"}, // the oldest of six parts is counted in full
		{69, 0, "k=a", "OK: OK/2"},     // 4 * 1/10, rounded up, is 1
		{70, 0, "k=a", "OK: OK/2"},     // it has expired; 1 was taken at 69
	}},
	{"sliding-log", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: sliding-log}}`, []step{
		{30, 2, "k=a", "OK: OK/0"},
		{89.9, 0, "k=a", "OVER: OVER/0"},
		{90, 0, "k=a", "OK: OK/1"},
	}},
	{"token-bucket and burst", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: token-bucket, burst: 2}}
- {key: m, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: token-bucket, burst: 2, count_refused: true}}
- {key: n, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: token-bucket, burst: 5, count_refused: true}}`, []step{
		{0, 2, "k=a", "OK: OK/0"},
		{0.9, 0, "k=a", "OVER: OVER/0"},
		{1, 0, "k=a", "OK: OK/0"},
		{1, 3, "m=a", "OVER: OVER/2"}, // more than a bucket holds is refused without a charge
		{1, 2, "m=a", "OK: OK/0"},
		{1, 4, "n=a", "OK: OK/1"}, // more than a minute's worth, and less than a bucket holds
	}},
	{"anchor", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 1, anchor: first}}`, []step{
		{30, 0, "k=a", "OK: OK/0"},
		{60, 0, "k=a", "OVER: OVER/0"},
		{90, 0, "k=a", "OK: OK/0"},
	}},
	{"count_refused", `
domain: d
descriptors:
- {key: no, rate_limit: {unit: minute, requests_per_unit: 5, count_refused: false}}
- {key: yes, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: sliding-log, count_refused: true}}
- {key: zero, rate_limit: {unit: minute, requests_per_unit: 0, count_refused: false}}`, []step{
		{0, 3, "no=a", "OK: OK/2"},
		{0, 3, "no=a", "OVER: OVER/2"},
		{0, 2, "no=a", "OK: OK/0"},
		{0, 6, "no=b", "OVER: OVER/5"}, // can never be admitted, and none of it is counted
		{0, 5, "no=b", "OK: OK/0"},
		{0, 5, "yes=a", "OK: OK/0"},
		{30, 5, "yes=a", "OVER: OVER/0"},
		{61, 1, "yes=a", "OVER: OVER/0"}, // those of 30 s are in the window
		{0, 0, "zero=a", "OVER: OVER/0"},
	}},
	{"lease", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 5, lease: true}}
- {key: not, rate_limit: {unit: minute, requests_per_unit: 5, lease: false}}
- {key: s, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: sliding-window, segments: 60, overlap: whole, lease: true}}`, []step{
		{0, 3, "k=a", "OK: OK/2"},
		{0, 3, "k=a", "OVER: OVER/2"}, // a leased rule does not count refusals
		{0, 2, "k=a", "OK: OK/0"},
		{0, 3, "not=a", "OK: OK/2"},
		{0, 3, "not=a", "OVER: OVER/0"},
		{0, 5, "s=a", "OK: OK/0"},
		{60.9, 0, "s=a", "OVER: OVER/0"},
		{61, 0, "s=a", "OK: OK/4"},
	}},
	{"unit_multiplier and window", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: second, unit_multiplier: 30, requests_per_unit: 1}}
- {key: m, rate_limit: {window: 90s, requests_per_unit: 1}}`, []step{
		{0, 0, "k=a m=a", "OK: OK/0 OK/0"},
		{29, 0, "k=a", "OVER: OVER/0"},
		{30, 0, "k=a", "OK: OK/0"},
		{29, 0, "m=a", "OVER: OVER/0"}, // base is 60 s into ninety
		{30, 0, "m=a", "OK: OK/0"},
		{119, 0, "m=a", "OVER: OVER/0"},
		{120, 0, "m=a", "OK: OK/0"},
	}},
	{"zone", `
domain: d
descriptors:
- {key: day, rate_limit: {unit: day, requests_per_unit: 1, zone: Europe/Berlin}}
- {key: month, rate_limit: {unit: month, requests_per_unit: 1, zone: Europe/Berlin}}
- {key: original, rate_limit: {unit: day, requests_per_unit: 1}}`, []step{
		{0, 0, "day=a month=a original=a", "OK: OK/0 OK/0 OK/0"},
		{2819, 0, "day=a", "OVER: OVER/0"},
		{2820, 0, "day=a", "OK: OK/0"}, // midnight in Berlin,
		{6419, 0, "original=a", "OVER: OVER/0"},
		{6420, 0, "original=a", "OK: OK/0"}, // and in Greenwich
		{1385219, 0, "month=a", "OVER: OVER/0"},
		{1385220, 0, "month=a", "OK: OK/0"}, // the first of December
	}},
}

func TestAdditions(t *testing.T) {
	for _, test := range additionsTests {
		t.Run(test.name, func(t *testing.T) {
			newRig(t, Options{}, test.file).play("d", test.steps)
		})
	}
}

// Windows that are not a unit are reported as a multiple of the unit that divides them.
func TestWindowsAreReportedInUnits(t *testing.T) {
	for _, test := range []struct {
		period     string
		unit       rls.RateLimitResponse_RateLimit_Unit
		multiplier uint32 // 0 for none
	}{
		{"window: 90s", rls.RateLimitResponse_RateLimit_SECOND, 90},
		{"window: 10m", rls.RateLimitResponse_RateLimit_MINUTE, 10},
		{"window: 60m", rls.RateLimitResponse_RateLimit_HOUR, 0},
		{"window: 36h", rls.RateLimitResponse_RateLimit_HOUR, 36},
		{"window: 2w", rls.RateLimitResponse_RateLimit_DAY, 14},
		{"unit: week", rls.RateLimitResponse_RateLimit_WEEK, 0},
		{"unit: month\n    zone: UTC", rls.RateLimitResponse_RateLimit_MONTH, 0},
		{"unit: month\n    unit_multiplier: 3", rls.RateLimitResponse_RateLimit_MONTH, 3},
		{"unit: hour\n    unit_multiplier: 1", rls.RateLimitResponse_RateLimit_HOUR, 0},
	} {
		r := newRig(t, Options{}, "domain: d\ndescriptors:\n- key: k\n  rate_limit:\n    requests_per_unit: 7\n    "+test.period)
		c := r.send(request("d", 0, "k=a")).Statuses[0].CurrentLimit
		if c.Unit != test.unit || c.GetUnitMultiplier().GetValue() != test.multiplier || c.RequestsPerUnit != 7 {
			t.Errorf("%s: got %v", test.period, c)
		}
	}
}

// A calendar window resets at its end, whatever its length: this month has 30 days and begins in another zone.
func TestResetOfTheCalendar(t *testing.T) {
	r := newRig(t, Options{ResponseHeaders: true}, `
domain: d
descriptors:
- {key: k, rate_limit: {unit: month, requests_per_unit: 1, zone: Europe/Berlin}}`)
	for _, code := range []string{"OK: OK/0", "OVER: OVER/0"} {
		response := r.send(request("d", 0, "k=a"))
		if got := response.Statuses[0].DurationUntilReset.Seconds; got != 1385220 {
			t.Errorf("%s: got a reset in %d s, want 1385220", code, got)
		}
	}
}

// A sliding window that refuses reports when the same hits would be admitted; one that admits, when all is free.
func TestResetOfASlidingWindow(t *testing.T) {
	r := newRig(t, Options{ResponseHeaders: true}, `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 4, algorithm: sliding-window}}`)
	seconds := func(hits uint32) int64 {
		return r.send(request("d", hits, "k=a")).Statuses[0].DurationUntilReset.Seconds
	}
	r.set(30)
	if got := seconds(4); got != 90 { // until the end of the next minute
		t.Errorf("admitted: got a reset in %d s, want 90", got)
	}
	r.set(60.5)
	// 4 * c/60 <= 2 when c <= 30: at 90 s, in 29.5 s.
	if got := seconds(2); got != 30 {
		t.Errorf("refused: got a reset in %d s, want 30", got)
	}
	r.set(90)
	r.want(request("d", 2, "k=a"), "OK: OK/0")
}

const together = `
domain: d
charging: all
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: m, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: none, rate_limit: {unit: minute, requests_per_unit: 0}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
`

func TestChargedAllOrNone(t *testing.T) {
	r := newRig(t, Options{}, together)
	r.play("d", []step{
		{0, 3, "k=a m=a", "OK: OK/0 OK/2"},
		{0, 0, "k=a m=a", "OVER: OVER/0 OK/2"}, // m is not charged,
		{0, 0, "m=a k=b", "OK: OK/1 OK/2"},     // as shown here
		{0, 9, "k=c m=c", "OVER: OVER/3 OVER/5"},
		{0, 0, "k=c m=c", "OK: OK/2 OK/4"}, // nor is a refusal
		{0, 0, "m=d none=a", "OVER: OK/5 OVER/0"},
		{0, 0, "m=d", "OK: OK/4"},
		{0, 0, "k=e k=e", "OK: OK/1 OK/1"}, // the costs of one count add up
		{0, 0, "k=e k=e", "OVER: OVER/1 OVER/1"},
		{0, 0, "shadow=a k=f", "OK: OK/0 OK/2"},
		{0, 0, "shadow=a k=f", "OK: OK/0 OK/1"}, // a rule that refuses nothing does not affect others
		{0, 0, "quota=a k=f", "OK: OK/0 OK/0"},
		{0, 0, "quota=b quota=a m=f", "OK: OK/0 OVER/0 OK/4"},
	})
	if n := r.store.calls.Load(); n != 13 {
		t.Errorf("got %d calls to the store for 13 requests", n)
	}
	mixed := request("d", 1, "k=g", "k=g", "m=g", "none=g")
	mixed.Descriptors[0].HitsAddend = wrapperspb.UInt64(2)
	mixed.Descriptors[1].HitsAddend = wrapperspb.UInt64(2)
	mixed.Descriptors[1].IsNegativeHits = true
	mixed.Descriptors[3].HitsAddend = wrapperspb.UInt64(0)
	r.want(mixed, "OK: OK/1 OK/3 OK/4 OK/0")
	r.want(request("d", 0, "k=g"), "OK: OK/2")
}

// Two limits on one count: the stricter one decides.
func TestTwoLimitsOnOneCountTogether(t *testing.T) {
	r := newRig(t, Options{}, together)
	for _, first := range []int{0, 1} {
		req := request("d", 1, "m=x", "m=x")
		req.Descriptors[first].Limit = limitOf(1, 2)
		r.want(req, "OVER: OVER/1 OVER/1")
	}
}

func TestChargingAllNeedsStoreSupport(t *testing.T) {
	r := newRig(t, Options{}, together)
	if err := (&Service{store: r.store, maxTogether: 1, metrics: r.service.metrics, release: func() {}}).Reload([]*Domain{mustParse(t, together)}); err == nil {
		t.Error("a store of one charge accepted charging: all")
	}
}
