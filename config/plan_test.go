package config

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/policy"
)

const planForm = "(want one of header:NAME, claim:NAME, user, key)"

// badPlanFiles are files with invalid plans, with their errors, line by line.
var badPlanFiles = []struct{ name, text, want string }{
	{"plan field", "policies:\n  a: {limits: [1/s], plan: X-Plan, plans: {p: {unlimited: true}}}\n  b: {limits: [1/s], plan: address, plans: {p: {unlimited: true}}}\n" +
		"  c: {limits: [1/s], plan: \"header:\", plans: {p: {unlimited: true}}}\n  d: {limits: [1/s], plan: [user], plans: {p: {unlimited: true}}}\n" +
		"  e: {limits: [1/s], plan: heder:X-Plan, plans: {p: {unlimited: true}}}\n  f: {limits: [1/s], plan: \"{user}\", plans: {p: {unlimited: true}}}\n", `
2:28: plan: "X-Plan" is not a field for plans; write header:X-Plan for a header ` + planForm + `
3:28: plan: "address" is not a field for plans ` + planForm + `
4:28: plan: header: needs a name, such as header:X-Api-Key
5:28: plan: must be a string, not a list
6:28: plan: "heder:X-Plan" is not a field for plans; did you mean "header"? ` + planForm + `
7:28: plan: "{user}" is not a field for plans; did you mean "user"? ` + planForm},
	{"plan alone", "policies:\n  a:\n    plan: user\n    limits: [1/s]\n  b:\n    limits: [1/s]\n    plans: {p: {unlimited: true}}\n  c:\n    plan: user\n    plans: {}\n    limits: [1/s]\n" +
		"  d:\n    plan: user\n    plans: [p]\n    limits: [1/s]\n", `
3:5: plan: has no plans to choose from; add plans: and below it names with limits, such as pro: {limits: [1000/1m]}
7:5: plans: needs plan, the field that contains the plan of a request; add plan: header:X-Plan, say ` + planForm + `
10:12: plans: is empty; write a name and its limits, such as pro: {limits: [1000/1m]}
14:12: plans: must be a mapping of names to plans, not a list`},
	{"plans", "policies:\n  a:\n    plan: user\n    plans:\n      a: {}\n      b: {limit: [1/s]}\n      c: {limits: [1/s], unlimited: true}\n      d: [1/s]\n      e: {limits: [1/x]}\n      \"\": {unlimited: true}\n" +
		"      f: {unlimited: false}\n      g:\n    limits: [1/s]\n", `
5:7: the plan has no limits; add limits: [1000/1m], say, or unlimited: true
6:11: "limit" is not a field of a plan; did you mean "limits"? (want one of limits, unlimited)
7:7: the plan has limits and is unlimited; leave one out
8:10: a plan must be a mapping with limits, not a list; write {limits: [1000/1m]}, say, or {unlimited: true}
9:20: invalid limit: window: "x" is not a duration such as 30s, 1m, 24h or 7d (in "1/x")
10:7: a plan has no name; write one, or a pattern such as team-*
11:7: the plan has no limits; add limits: [1000/1m], say, or unlimited: true
12:7: "g" has no value; write one, or leave it out`},
	{"plans never reached", "policies:\n  a:\n    plan: user\n    plans:\n      \"team-*\": {unlimited: true}\n      team-a: {limits: [1/s]}\n      pro: {limits: [1/s]}\n      pro: {limits: [2/s]}\n    limits: [1/s]\n", `
6:7: this plan is never reached, since the one on line 5 matches all of its names; put it before that one, or leave it out
8:7: "pro" is given twice; the first is on line 7`},
	{"limits of plans", "policies:\n  a:\n    plan: user\n    plans:\n      big: {limits: [20000/1m, 200/60s]}\n    limits: [60/1m]\n",
		`5:32: the limit "200/1m" would share its counts with the one on line 5, which has the same name and shape; give it another name`},
	{"plans by address", "policies:\n  a:\n    key: address\n    plan: key\n    plans:\n      pro: {unlimited: true}\n      \"2001:db8:1:2::/64\": {unlimited: true}\n    limits: [60/1m]\n",
		`6:7: plans: the key must be an address, or a prefix such as 203.0.113.0/24 (keys are written as requests have them, such as "203.0.113.7")`},
}

const planned = `
policies:
  api:
    key: header:X-Api-Key
    plan: header:X-Plan
    plans:
      pro: {limits: [1000/1m]}
      "team-*": {limits: [10000/1m sliding-window]}
      internal: {unlimited: true}
    limits: [100/1m]
`

// The field determines the plan of a request; without a plan, or with one that is not listed, it has none.
func TestPlans(t *testing.T) {
	file, err := Parse("test.yaml", []byte(planned))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	p := opts.Policies[0]
	if len(p.Plans) != 3 {
		t.Fatalf("got plans %+v", p.Plans)
	}
	for value, want := range map[string]policy.Plan{
		"pro": policy.Named("pro"), "team-a": policy.Named("team-*"), "internal": policy.Named("internal"), "": {}, "gold": {}, "Pro": {}, "*": {},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Plan", value)
		if got, _ := p.Plan(r); !reflect.DeepEqual(got, want) {
			t.Errorf("plan of %q: got %+v, want %+v", value, got, want)
		}
	}
	if got, _ := p.Plan(httptest.NewRequest("GET", "/", nil)); !reflect.DeepEqual(got, policy.Plan{}) {
		t.Errorf("request without the header: got plan %+v, want none", got)
	}
}

// Plans by key are overrides after those of the file.
func TestPlansByKey(t *testing.T) {
	file, err := Parse("test.yaml", []byte(strings.Replace(planned, "plan: header:X-Plan", "plan: key\n    overrides: [{key: pro, limits: [5/1m]}]", 1)))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	p := opts.Policies[0]
	if p.Plan != nil || len(p.Plans) > 0 || len(p.Overrides) != 4 {
		t.Fatalf("got policy %+v, want four overrides and no plans", p)
	}
	if o := p.Overrides[0]; o.Limits[0].Quota != 5 {
		t.Errorf("first override: got %+v, want the file's", o)
	}
	if o := p.Overrides[2]; !o.Pattern || o.Key != "team-*" || o.Limits[0].Quota != 10000 {
		t.Errorf("third override: got %+v, want team-*", o)
	}
}

// The first plan that matches decides, whether it is a name or a pattern.
func TestFindPlan(t *testing.T) {
	p := Policy{Plans: []policy.Plan{{Name: "a-x"}, {Name: "a-*"}, {Name: "b-x"}, {Name: "*-x"}, {Name: "c"}, {Name: "e-*"}, {Name: "e-y"}, {Name: "*"}}}
	find := p.FindPlan()
	for value, want := range map[string]string{"a-x": "a-x", "a-y": "a-*", "b-x": "b-x", "d-x": "*-x", "c": "c", "e-y": "e-*", "d": "*"} {
		if got, ok := find(value); !ok || got.Name != want {
			t.Errorf("plan of %q: got %q, want %q", value, got.Name, want)
		}
	}
	if got, ok := find(""); ok {
		t.Errorf("empty value: got plan %+v, want none", got)
	}
}

func TestFormatPlans(t *testing.T) {
	file, err := Parse("test.yaml", []byte(planned))
	if err != nil {
		t.Fatal(err)
	}
	text := string(Format(file))
	const want = `    plan: "header:X-Plan"
    plans:
      "pro":
        limits:
          - 1000/1m # hard cap
      "team-*":
        limits:
          - 10000/1m sliding-window # segments=1 overlap=up anchor=clock
      "internal":
        unlimited: true
`
	if !strings.Contains(text, want) {
		t.Errorf("got\n%s\nwant it to contain\n%s", text, want)
	}
	again, err := Parse("format.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Policies[0].Plans, file.Policies[0].Plans) {
		t.Errorf("output of Format: got %+v, want %+v", again.Policies, file.Policies)
	}
}
