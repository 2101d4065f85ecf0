package config

import (
	"errors"
	"strings"
	"testing"
)

// What is valid and hardly meant is a warning, with its position; what is meant is none.
func TestWarnings(t *testing.T) {
	for _, test := range []struct{ policy, want string }{
		{"{limits: [5/1m], allow: [0.0.0.0/0]}", "w.yaml:1:44: allow: \"0.0.0.0/0\" is every client, so nobody is limited, by IPv4 addresses;"},
		{"{limits: [5/1m], allow: [10.0.0.0/8, '::/0']}", "w.yaml:1:56: allow: \"::/0\" is every client, so nobody is limited, by IPv6 addresses;"},
		{"{limits: [5/1m], allow: ['::ffff:0.0.0.0/96']}", "is every client, so nobody is limited, by IPv4 addresses;"},
		{"{limits: [5/1m], key: header:X-User, allow: ['key:*']}", "allow: \"key:*\" is every client, so nobody is limited;"},
		{"{limits: [5/1m], key: header:X-User, block: ['key:**']}", "block: \"key:**\" is every client, so everybody is refused;"},
		{"{limits: [5/1m], block: [0.0.0.0/0]}", "everybody is refused, by IPv4 addresses;"},
		{"{limits: [5/1m], overrides: [{keys: '*', unlimited: true}]}", "w.yaml:1:48: the override lifts the limits of every key;"},
		{"{limits: [5/1m], plan: header:X-Plan, plans: {'*': {unlimited: true}}}", "plans: \"*\" lifts the limits of every request that names a plan"},
		{"{limits: [5/1m], match: /api}", "w.yaml:1:43: match: \"/api\" does not match /api/x, and no other policy does; write \"/api/\" too"},
		{"{limits: [5/1m], match: [GET /x, {path: example.com/v1/users, cost: 2}]}", "match: \"example.com/v1/users\" does not match /v1/users/x,"},

		{"{limits: [5/1m], allow: [10.0.0.0/8, 'key:team-*'], block: ['2001:db8::/32']}", ""},
		{"{limits: [5/1m], overrides: [{keys: 'team-*', unlimited: true}], plan: header:X-Plan, plans: {'pro-*': {unlimited: true}}}", ""},
		{"{limits: [5/1m], overrides: [{key: a, unlimited: true}, {keys: '*', limits: [9/1m]}]}", ""},
		{"{limits: [5/1m], match: POST /login}", ""},
		{"{limits: [5/1m], match: [/api, /api/]}", ""},
		{"{limits: [5/1m], match: [/, {path: /search, cost: 2}, {path: /healthz, unlimited: true}]}", ""},
		{"{limits: [5/1m], match: '/items/{id}'}", ""},
		{"{limits: [5/1m], match: /login}\n  all: {limits: [9/1m]}", ""},
	} {
		file, err := Parse("w.yaml", []byte("policies: \n  a: "+test.policy))
		if strings.HasPrefix(test.want, "w.yaml:1:") {
			file, err = Parse("w.yaml", []byte("policies: {p1234: "+test.policy+"}"))
		}
		if err != nil {
			t.Errorf("%s: %v", test.policy, err)
			continue
		}
		got := errors.Join(file.Warnings...)
		switch {
		case test.want == "" && got != nil, test.want != "" && len(file.Warnings) != 1:
			t.Errorf("%s: got %v, want %q", test.policy, got, test.want)
		case got != nil && !strings.Contains(got.Error(), test.want):
			t.Errorf("%s: got %v, want %q", test.policy, got, test.want)
		}
	}
}

// A fixed cost that no request can ever pay is an error; one that a client with other limits can pay is not.
func TestCostAboveTheLimits(t *testing.T) {
	for policy, wrong := range map[string]bool{
		"{limits: [10/1m], cost: 50}":                                                                   true,
		"{limits: [10/1m], cost: 10}":                                                                   false,
		"{limits: [10/1s, 1000/1h], cost: 50}":                                                          true,
		"{limits: [1000/1h, 60/1m], cost: 50}":                                                          false,
		"{limits: [10/1m token-bucket burst=60], cost: 50}":                                             false,
		"{limits: [100/1m token-bucket burst=20], cost: 50}":                                            true,
		"{limits: [10/1m], match: [/, {path: /export, cost: 50}]}":                                      true,
		"{limits: [10/1m], cost: 50, overrides: [{key: a, limits: [9/1m]}, {key: b, limits: [20/1m]}]}": true,
		"{limits: [10/1m], cost: 50, overrides: [{key: a, limits: [90/1m]}]}":                           false,
		"{limits: [10/1m], cost: 50, overrides: [{key: a, unlimited: true}]}":                           false,
		"{limits: [10/1m], cost: 50, plan: header:X-Plan, plans: {pro: {limits: [100/1m]}}}":            false,
		"{limits: [10/1m], cost: 50, plan: header:X-Plan, plans: {pro: {limits: [20/1m]}}}":             true,
		"{limits: [2 in-flight ttl=30s], cost: 50}":                                                     false,
		"{limits: [10/1m], cost: header:X-Cost}":                                                        false,
		"{limits: [10/1m], cost: 0}":                                                                    false,
		"{limits: [10/1m], cost: 50, shadow: true}":                                                     true,
	} {
		_, err := Parse("w.yaml", []byte("policies: {a: "+policy+"}"))
		if got := err != nil && strings.Contains(err.Error(), "cost: 50 is more than the limits of the policy ever admit at once"); got != wrong || err != nil && !wrong {
			t.Errorf("%s: got %v, want an error about the cost: %v", policy, err, wrong)
		}
	}
}
