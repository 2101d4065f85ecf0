package config

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/policy"
)

const classed = `
policies:
  api:
    key: "all"
    class: header:X-Class
    classes: {critical: 100%, "batch-*": 60%, default: 90%}
    limits: [600/1m]
  keys:
    key: address
    class: key
    classes: {192.0.2.0/24: 100%, "2001:db8::*": 5%, default: 50%}
    limits: [600/1m name=hits]
    plan: header:X-Plan
    plans: {pro: {limits: [6000/1m name=hits]}}
`

// The class of a request is found by a field or by its key, and Format writes the classes.
func TestClasses(t *testing.T) {
	file, err := Parse("f", []byte(strings.ReplaceAll(classed, `key: "all"`, `key: "{header:X-Tenant}"`)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(file.Headers()), "[X-Class X-Plan X-Tenant]"; got != want {
		t.Errorf("got the headers %s, want %s", got, want)
	}
	opts, err := HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		header, address string
		want            [2]string
	}{
		{"critical", "192.0.2.9:1", [2]string{"critical", "192.0.2.0/24"}}, {"batch-7", "198.51.100.1:1", [2]string{"batch-*", "default"}},
		{"", "192.0.3.1:1", [2]string{"default", "default"}}, {"Critical", "192.0.2.255:1", [2]string{"default", "192.0.2.0/24"}},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = test.address
		if test.header != "" {
			r.Header = http.Header{"X-Class": {test.header}}
		}
		for i, want := range test.want {
			if got := opts.Policies[i].Class(r); got != want {
				t.Errorf("header %q from %s: got the class %q of policy %d, want %q", test.header, test.address, got, i, want)
			}
		}
	}
	text := string(Format(file))
	if want := "    class: \"header:X-Class\"\n    classes:\n      \"critical\": 100%\n      \"batch-*\": 60%\n      \"default\": 90%\n"; !strings.Contains(text, want) {
		t.Errorf("got\n%s\nwant it to contain\n%s", text, want)
	}
	again, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := range file.Policies {
		if a, b := &again.Policies[i], &file.Policies[i]; !slices.Equal(a.Classes, b.Classes) || a.ClassBy != b.ClassBy {
			t.Errorf("again: got %+v by %v, want %+v by %v", a.Classes, a.ClassBy, b.Classes, b.ClassBy)
		}
	}
	if want := []policy.Class{{Name: "critical", Percent: 100}, {Name: "batch-*", Percent: 60}, {Name: "default", Percent: 90}}; !slices.Equal(file.Policies[0].Classes, want) {
		t.Errorf("got %+v, want %+v", file.Policies[0].Classes, want)
	}
}

var badClassFiles = []struct{ name, text, want string }{
	{"classes", "policies:\n  a:\n    class: header:X-Class\n    classes: {a: 90, b: 0%, c: 101%, d: [1], \"\": 5%, e: 5.5%, f: +5%, \"b*\": 5%, bb: 6%}\n    limits: [1/s]\n", `
4:14: classes: has no default; add default: 90%, say, for requests that name no class
4:18: classes: "90" is not a percentage from 1% to 100%; write 90%, say
4:25: classes: "0%" is not a percentage from 1% to 100%; write 90%, say
4:32: classes: "101%" is not a percentage from 1% to 100%; write 90%, say
4:41: classes: must be a percentage such as 90%, not a list
4:46: a class has no name; write one, or a pattern such as team-*
4:57: classes: "5.5%" is not a percentage from 1% to 100%; write 90%, say
4:66: classes: "+5%" is not a percentage from 1% to 100%; write 90%, say
4:81: this class is never reached, since the one on line 4 matches all of its names; put it before that one, or leave it out`},
	{"class alone", "policies:\n  a:\n    class: user\n    limits: [1/s]\n  b:\n    classes: {default: 90%}\n    limits: [1/s]\n  c:\n    class: X-Class\n    classes: [default]\n    limits: [1/s]\n", `
3:5: class: has no classes to choose from; add classes: {critical: 100%, default: 90%}, say
6:5: classes: needs class, the field that contains the class of a request; add class: header:X-Class, say (want one of header:NAME, claim:NAME, user, key)
9:12: class: "X-Class" is not a field for classes; write header:X-Class for a header (want one of header:NAME, claim:NAME, user, key)
10:14: classes: must be a mapping of names to percentages, not a list; write {critical: 100%, default: 90%}, say`},
	{"what classes exclude", "policies:\n  a:\n    class: user\n    classes: {default: 90%}\n    limits: [1/m lease, 1/h]\n    penalty: 1m\n    overrides: [{key: k, limits: [5/m count-refused]}]\n" +
		"  b:\n    class: user\n    classes: {default: 90%}\n    lease: true\n    limits: [1/m]\n  c:\n    class: user\n    classes: {default: 50%}\n    cost: 51\n    limits: [100/m]\n", `
5:14: lease: the policy has classes on line 4, and a server that leases units for one class would leave less to the others than they have; leave out one of them
6:5: penalty: a refusal of one class would keep the others out too; leave out penalty or classes
6:14: penalty: the policy has leased limits, but with a penalty every request needs the store; leave out lease or penalty
7:35: count_refused: the policy has classes on line 4, and the refused requests of one class would use up what is left for the others; leave out one of them
12:14: lease: the policy has classes on line 10, and a server that leases units for one class would leave less to the others than they have; leave out one of them
16:11: cost: 51 is more than the limits of the policy ever admit at once, which is 50; no request would be admitted`},
	{"classes by address", "policies:\n  a:\n    key: address\n    class: key\n    classes: {pro: 90%, default: 50%}\n    limits: [60/1m]\n",
		`5:15: classes: the key must be an address, or a prefix such as 203.0.113.0/24 (keys are written as requests have them, such as "203.0.113.7")`},
}
