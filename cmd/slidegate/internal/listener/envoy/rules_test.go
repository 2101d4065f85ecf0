package envoy

import "testing"

// What the original documents for each key of its files, derived by hand.
var rulesTests = []struct {
	name  string
	file  string
	steps []step
}{
	{"a value in full", `
domain: d
descriptors:
- {key: k, value: v, rate_limit: {unit: minute, requests_per_unit: 2}}`, []step{
		{0, 0, "k=v", "OK: OK/1"},
		{10, 0, "k=v", "OK: OK/0"},
		{59, 0, "k=v", "OVER: OVER/0"},
		{59.999999, 0, "k=v", "OVER: OVER/0"},
		{60, 0, "k=v", "OK: OK/1"},     // the minute is over: all is free
		{60, 0, "k=w", "OK: OK/-"},     // another value
		{60, 0, "q=v", "OK: OK/-"},     // another key
		{60, 0, "k=v,a=b", "OK: OK/-"}, // deeper than the file
	}},
	{"any value, each with its own count", `
domain: d
descriptors:
- key: k
  rate_limit: {unit: minute, requests_per_unit: 1}`, []step{
		{0, 0, "k=a", "OK: OK/0"},
		{0, 0, "k=b", "OK: OK/0"},
		{0, 0, "k=a", "OVER: OVER/0"},
		{0, 0, "k=", "OK: OK/0"},
	}},
	{"the most specific wins", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: k, value: "a*", rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: k, value: "ab*", rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: k, value: abc, rate_limit: {unit: minute, requests_per_unit: 4}}`, []step{
		{0, 0, "k=z", "OK: OK/0"},
		{0, 0, "k=abz", "OK: OK/1"}, // the first with a * in the order of the file
		{0, 0, "k=abc", "OK: OK/3"},
	}},
	{"a * anywhere", `
domain: d
descriptors:
- {key: k, value: "/a/*/b*c", rate_limit: {unit: minute, requests_per_unit: 9}}
- {key: k, value: "*.png", rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: m, value: "*", rate_limit: {unit: minute, requests_per_unit: 3}}`, []step{
		{0, 0, "k=/a/x/bc", "OK: OK/8"},
		{0, 0, "k=/a/x/y/bzzc", "OK: OK/8"},
		{0, 0, "k=/a/b", "OK: OK/-"},
		{0, 0, "k=/a//b", "OK: OK/-"},
		{0, 0, "k=x.png", "OK: OK/4"},
		{0, 0, "k=.png", "OK: OK/4"},
		{0, 0, "k=x.pngs", "OK: OK/-"},
		{0, 0, "m=x", "OK: OK/2"},
		{0, 0, "m=", "OK: OK/2"},
	}},
	{"each value that a * matches has its own count, unless they share it", `
domain: d
descriptors:
- {key: own, value: "a*", rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: shared, value: "a*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- key: deep
  value: "a*"
  share_threshold: true
  descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}`, []step{
		{0, 0, "own=a1", "OK: OK/0"},
		{0, 0, "own=a2", "OK: OK/0"},
		{0, 0, "shared=a1", "OK: OK/0"},
		{0, 0, "shared=a2", "OVER: OVER/0"},
		{0, 0, "deep=a1,user=x", "OK: OK/0"},
		{0, 0, "deep=a2,user=y", "OK: OK/0"},
		{0, 0, "deep=a3,user=x", "OVER: OVER/0"},
	}},
	{"nested", `
domain: d
descriptors:
- key: type
  value: marketing
  descriptors:
  - key: to
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: to
    value: "555"
    rate_limit: {unit: day, requests_per_unit: 1}
- key: to
  rate_limit: {unit: day, requests_per_unit: 3}`, []step{
		{0, 0, "type=marketing,to=1", "OK: OK/1"},
		{0, 0, "type=marketing,to=555", "OK: OK/0"},
		{0, 0, "type=marketing", "OK: OK/-"}, // no limit by itself
		{0, 0, "to=1", "OK: OK/2"},           // and has its own count
		{0, 0, "type=marketing,to=1 to=1", "OK: OK/0 OK/1"},
		{0, 0, "type=marketing,to=1 to=1", "OVER: OVER/0 OK/0"}, // each is charged by itself
		{0, 0, "to=1", "OVER: OVER/0"},
	}},
	{"limits at two depths", `
domain: d
descriptors:
- key: a
  rate_limit: {unit: minute, requests_per_unit: 5}
  descriptors:
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 7}}`, []step{
		{0, 0, "a=1", "OK: OK/4"},
		{0, 0, "a=1,b=1", "OK: OK/6"},
		{0, 0, "a=1,c=1", "OK: OK/-"},
	}},
	{"hits that cross the limit count, and go on counting", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}`, []step{
		{0, 3, "k=a", "OK: OK/2"},
		{0, 3, "k=a", "OVER: OVER/0"}, // 6
		{0, 1, "k=a", "OVER: OVER/0"}, // 7: not the 4th
		{60, 5, "k=a", "OK: OK/0"},
		{60, 6, "k=b", "OVER: OVER/0"}, // more than the limit by itself
		{60, 1, "k=b", "OVER: OVER/0"}, // counted nevertheless
		{120, 1, "k=b", "OK: OK/4"},
	}},
	{"a limit of 0 refuses all", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 0}}`, []step{
		{0, 0, "k=a", "OVER: OVER/0"},
		{60, 1, "k=a", "OVER: OVER/0"},
	}},
	{"shadow mode", `
domain: d
descriptors:
- {key: k, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: m, rate_limit: {unit: minute, requests_per_unit: 1}}`, []step{
		{0, 0, "k=a", "OK: OK/0"},
		{0, 0, "k=a", "OK: OK/0"}, // over, and reported as OK
		{0, 0, "k=a m=a", "OK: OK/0 OK/0"},
		{0, 0, "k=a m=a", "OVER: OK/0 OVER/0"},
	}},
	{"unlimited", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: k, value: vip, rate_limit: {unlimited: true}}`, []step{
		{0, 0, "k=vip", "OK: OK/inf"},
		{0, 9, "k=vip", "OK: OK/inf"},
		{0, 0, "k=a k=vip", "OK: OK/0 OK/inf"},
		{0, 0, "k=a k=vip", "OVER: OVER/0 OK/inf"},
	}},
	{"no rate_limit", `
domain: d
descriptors:
- {key: k}
- {key: k, value: v, rate_limit: {unit: minute, requests_per_unit: 1}}`, []step{
		{0, 0, "k=a", "OK: OK/-"},
		{0, 0, "k=v", "OK: OK/0"},
	}},
	{"quota mode", `
domain: d
descriptors:
- {key: q, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: k, rate_limit: {unit: minute, requests_per_unit: 4}}`, []step{
		{0, 0, "q=a q=b", "OK: OK/0 OK/0"},
		{0, 0, "q=a q=c", "OK: OVER/0 OK/0"},     // one of two
		{0, 0, "q=a q=b", "OVER: OVER/0 OVER/0"}, // both
		{0, 0, "q=a", "OVER: OVER/0"},            // the only one
		{0, 0, "q=a k=a", "OVER: OVER/0 OK/3"},   // ordinary rules do not help
		{0, 0, "q=d k=a", "OK: OK/0 OK/2"},
		{0, 5, "q=e k=a", "OVER: OVER/0 OVER/0"},
		{0, 0, "q=f k=a", "OVER: OK/0 OVER/0"}, // any ordinary rule is enough
	}},
	{"replaces", `
domain: d
descriptors:
- {key: k, rate_limit: {name: base, unit: minute, requests_per_unit: 1}}
- {key: m, rate_limit: {name: more, unit: minute, requests_per_unit: 3, replaces: [{name: base}, {name: other}]}}
- {key: free, rate_limit: {unlimited: true, replaces: [{name: base}]}}`, []step{
		{0, 0, "k=a m=a", "OK: OK/- OK/2"},
		{0, 0, "m=a k=a", "OK: OK/1 OK/-"}, // in any order
		{0, 0, "k=a free=x", "OK: OK/- OK/inf"},
		{0, 0, "k=a", "OK: OK/0"}, // and the replaced rule was not charged
		{0, 0, "k=a", "OVER: OVER/0"},
		{0, 0, "k=a m=a", "OK: OK/- OK/0"},
	}},
	{"metrics by value are accepted, and nothing comes of them", `
domain: d
descriptors:
- {key: k, detailed_metric: true, value_to_metric: true, metadata: {a: 1}, rate_limit: {unit: minute, requests_per_unit: 1}}`, []step{
		{0, 0, "k=a", "OK: OK/0"},
		{0, 0, "k=b", "OK: OK/0"},
	}},
	{"one descriptor twice", `
domain: d
descriptors:
- {key: k, rate_limit: {unit: minute, requests_per_unit: 3}}`, []step{
		{0, 0, "k=a k=a", "OK: OK/2 OK/1"},
		{0, 0, "k=a k=a", "OVER: OK/0 OVER/0"},
	}},
	{"entries that a separator would mix up", `
domain: d
descriptors:
- {key: a, descriptors: [{key: b, rate_limit: {unit: minute, requests_per_unit: 1}}]}
- {key: a_1_b, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: a_b, value: c, rate_limit: {unit: minute, requests_per_unit: 1}}`, []step{
		{0, 0, "a=1,b=2", "OK: OK/0"},
		{0, 0, "a_1_b=2", "OK: OK/0"},
		{0, 0, "a=1_b,b=2", "OK: OK/0"},
		{0, 0, "a=1,b=_b_2", "OK: OK/0"},
		{0, 0, "a=b_c", "OK: OK/-"}, // not the rule of the key a_b
	}},
	{"merged and repeated values", `
domain: d
descriptors:
- {key: k, rate_limit: &one {unit: minute, requests_per_unit: 1}}
- {key: l, rate_limit: *one}
- {key: m, rate_limit: {<<: *one, requests_per_unit: 2}}
- {key: n, rate_limit: {<<: [{unit: hour}, *one]}}`, []step{
		{0, 0, "k=a l=a m=a n=a", "OK: OK/0 OK/0 OK/1 OK/0"},
		{60, 0, "k=a l=a m=a n=a", "OVER: OK/0 OK/0 OK/1 OVER/0"},
	}},
}

func TestRules(t *testing.T) {
	for _, test := range rulesTests {
		t.Run(test.name, func(t *testing.T) {
			newRig(t, Options{}, test.file).play("d", test.steps)
		})
	}
}

// Every unit resets at multiples of its length since the epoch, and not earlier.
func TestUnits(t *testing.T) {
	const day = 86400
	for _, test := range []struct {
		unit   string
		length float64
	}{
		{"second", 1}, {"MINUTE", 60}, {"Hour", 3600}, {"day", day}, {"week", 7 * day}, {"month", 30 * day}, {"year", 365 * day},
	} {
		t.Run(test.unit, func(t *testing.T) {
			r := newRig(t, Options{}, "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1, unit: "+test.unit+"}}]")
			end := test.length - float64(int64(base)%int64(test.length))
			r.play("d", []step{
				{0, 0, "k=a", "OK: OK/0"},
				{end - 0.001, 0, "k=a", "OVER: OVER/0"},
				{end, 0, "k=a", "OK: OK/0"},
				{end + test.length - 0.001, 0, "k=a", "OVER: OVER/0"},
				{end + test.length, 0, "k=a", "OK: OK/0"},
			})
		})
	}
}
