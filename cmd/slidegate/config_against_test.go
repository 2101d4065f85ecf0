package main

import (
	"strings"
	"testing"
)

// What is listed are the limits that a reload would start empty: a changed name, window or algorithm, also in overrides.
// A quota on the other side of 100, another burst and another policy are not.
func TestConfigCheckAgainst(t *testing.T) {
	const before = `policies:
  api:
    limits: [60/1m, 20/1s token-bucket burst=40 name=burst, 9/1h name=hourly]
    overrides: [{key: vip, limits: [90/1m]}]
  login: {limits: [5/1m]}
  gone: {limits: [5/1m]}
`
	s := startServe(t, "--config", write(t, "before.yaml", []byte(before)))
	admin := s.url("admin")
	same := write(t, "same.yaml", []byte(strings.ReplaceAll(strings.ReplaceAll(before, "60/1m", "600/1m"), "burst=40", "burst=80")))
	other := write(t, "other.yaml", []byte(`policies:
  api:
    limits: [60/1m segments=60 overlap=whole, 20/1s token-bucket name=burst, 9/2h name=hourly]
    overrides: [{key: vip, limits: [900/1m, 7/1m name=vip]}]
  login: {limits: [500/1m]}
  new: {limits: [1/1d]}
`))
	r := callConfig(t, "check", same, "--against", admin)
	if want := same + ": ok, 3 policies, 5 limits\nagainst " + admin + ": every limit of a policy that is in force continues its counts\n"; r.status != exitOK || r.out != want {
		t.Errorf("other quotas: got status %d, %s%s, want\n%s", r.status, r.out, r.err, want)
	}
	r = callConfig(t, "check", other, "--against", admin)
	want := other + ": ok, 3 policies, 5 limits\n"
	for _, limit := range []string{
		"limit 60/1m segments=60 overlap=whole", `limit 9/2h name="hourly"`, `limit 7/1m name="vip"`,
	} {
		want += "against " + admin + ": policy api: the counts of the " + limit + " would start empty\n"
	}
	if r.status != exitOK || r.out != want {
		t.Errorf("other shapes: got status %d, %s%s, want\n%s", r.status, r.out, r.err, want)
	}
	if r := callConfig(t, "check", same, "--against", s.url("http")); r.status != exitFailure || !strings.Contains(r.err, "--against") {
		t.Errorf("another listener: got status %d, %s, want an error that names --against", r.status, r.err)
	}
}
