package config

import (
	"slices"
	"strings"
	"testing"
)

// A policy's lease applies to all of its limits, a limit's to itself, and the output is read as the same file.
func TestLease(t *testing.T) {
	for _, test := range []struct{ name, policy, want string }{
		{"policy", `
    lease: true
    limits: [1000/1m, {quota: 50, window: 1h, segments: 60, overlap: whole}, 1000/1s token-bucket]
    overrides: [{key: vip, limits: [60/1m, 2000/1h]}, {key: free, unlimited: true}]`, `
    limits:
      - 1000/1m # hard cap
      - 50/1h segments=60 overlap=whole # sliding-window anchor=clock
      - 1000/1s token-bucket # burst=1000
    overrides:
      - key: "vip"
        limits:
          - 60/1m # hard cap
          - 2000/1h # hard cap
      - key: "free"
        unlimited: true
    # plans: none
    allow: []
    block: []
    # penalty: none
    # wait: none
    # refusal: that of the file
    shadow: false
    failure: local
    lease: true
`},
		{"limit", `
    limits: [1000/1m lease, {quota: 50, window: 1h, overlap: up, lease: true}, 10/1s]
    lease: false`, `
    limits:
      - 1000/1m lease # hard cap
      - 50/1h sliding-window lease # segments=1 overlap=up anchor=clock
      - 10/1s # hard cap
    overrides: []
    # plans: none
    allow: []
    block: []
    # penalty: none
    # wait: none
    # refusal: that of the file
    shadow: false
    failure: local
    lease: false
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, err := Parse("f", []byte("policies:\n  a:"+test.policy))
			if err != nil {
				t.Fatal(err)
			}
			got := string(Format(file))
			if !strings.HasSuffix(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
			again, err := Parse("f", []byte(got))
			if err != nil {
				t.Fatal(err)
			}
			a, b := &again.Policies[0], &file.Policies[0]
			if !slices.Equal(a.Limits, b.Limits) {
				t.Errorf("got\n%v\nwant\n%v", a, b)
			}
			for i := range b.Overrides {
				if !slices.Equal(a.Overrides[i].Limits, b.Overrides[i].Limits) {
					t.Errorf("override: got %v, want %v", a.Overrides[i].Limits, b.Overrides[i].Limits)
				}
			}
		})
	}
}

// The lease of one policy does not apply to the next one.
func TestLeaseIsOfItsPolicy(t *testing.T) {
	file, err := Parse("f", []byte("policies:\n  a: {lease: true, limits: [1000/1m]}\n  b: {limits: [100/1m]}\n  c: {limits: [{quota: 5, window: 1m, lease: false}]}\n  d: {lease: true, limits: [200/1m]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false, true} {
		if got := file.Policies[i].Limits[0].Lease; got != want {
			t.Errorf("limit of policy %s: got leased %t, want %t", file.Policies[i].Name, got, want)
		}
	}
}
