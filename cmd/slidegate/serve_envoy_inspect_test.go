package main

import (
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// sendEnvoy sends a request with one descriptor to the gRPC listener, as Envoy does. The descriptor is alternating keys and values.
func (s *runningService) sendEnvoy(domain string, hits uint32, descriptor ...string) string {
	s.t.Helper()
	conn, err := grpc.NewClient(s.addresses["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(descriptor); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: descriptor[i], Value: descriptor[i+1]})
	}
	got, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(s.t.Context(),
		&rls.RateLimitRequest{Domain: domain, HitsAddend: hits, Descriptors: []*common.RateLimitDescriptor{d}})
	if err != nil {
		s.t.Fatal(err)
	}
	return got.GetOverallCode().String()
}

// A client that an Envoy rule refuses is explained by explain, and admitted again after reset.
func TestEnvoyOperatorCommands(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	rules := write(t, "rules.yaml", []byte("domain: api\ndescriptors:\n- key: path\n  value: /export/*\n  descriptors:\n"+
		"  - {key: client, rate_limit: {unit: day, requests_per_unit: 2}}\n"))
	s := startServe(t, "--envoy", rules)
	want := func(code string) {
		t.Helper()
		if got := s.sendEnvoy("api", 1, "path", "/export/a,b", "client", "ann"); got != code {
			t.Fatalf("got %s, want %s", got, code)
		}
	}
	want("OK")
	want("OK")
	want("OVER_LIMIT")
	admin := []string{"--server", s.url("admin")}
	const key = `"path=/export/a%2Cb,client=ann"`
	commandLines{
		{[]string{"explain", key, "--policy", "envoy:api"}, exitOK, "rule       api.path_/export/*.client\ndecision   refused, by its limits\nlimit      2/24h fixed-window count-refused: 0 of 2 left, retry in "},
		{[]string{"explain", "path=/export/x,client=bob", "--policy", "envoy:api"}, exitOK, "2 of 2 left"},
		{[]string{"explain", "path=/import,client=bob", "--policy", "envoy:api"}, exitOK, `no rule matches: api has no descriptor for entry 1, "path"`},
		{[]string{"explain", key, "--policy", "envoy:apo"}, exitFailure, `did you mean "envoy:api"?`},
		{[]string{"explain", "path=a=b", "--policy", "envoy:api"}, exitFailure, "key: envoy: invalid key: entry 1 of the descriptor has two ="},
		{[]string{"explain", "me"}, exitOK, "policy     default\nkey        \"me\"\ndecision   allowed, by its limits\nlimit      100/1m: 100 of 100 left"},
		{[]string{"explain", "me", "--cost=-1"}, exitFailure, "--cost"},
		{[]string{"reset", "path=/import", "--policy", "envoy:api"}, exitFailure, "no rule matches"},
	}.play(t, admin...)
	commandLines{{[]string{"peek", key, "--policy", "envoy:api"}, exitRefused, "refused by api.path_/export/*.client: 0 of 2 left, retry in "}}.play(t, "--server", s.url("http"))
	commandLines{{[]string{"explain", key}, exitFailure, "is not the admin listener"}}.play(t, "--server", s.url("http"))
	commandLines{{[]string{"reset", key, "--policy", "envoy:api"}, exitOK, "reset"}}.play(t, admin...)
	want("OK")
	if _, page := s.page("admin", "/metrics"); !strings.Contains(page, `rule="api.path_/export/*.client"`) {
		t.Error("/metrics: the path of the rule is missing")
	}
}

// A ruling about a descriptor applies to the requests of Envoy until it ends.
func TestEnvoyRulings(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	rules := write(t, "rules.yaml", []byte("domain: api\ndescriptors:\n- {key: client, rate_limit: {unit: day, requests_per_unit: 2}}\n"))
	s := startServe(t, "--envoy", rules)
	want := func(code string) {
		t.Helper()
		if got := s.sendEnvoy("api", 1, "client", "ann"); got != code {
			t.Errorf("got %s, want %s", got, code)
		}
	}
	play := func(status int, output string, args ...string) {
		t.Helper()
		commandLines{{append(args, "--policy", "envoy:api", "--server", s.url("admin")), status, output}}.play(t)
	}
	play(exitOK, "", "block", "client=ann", "--for", "1h", "--why", "scraper")
	want("OVER_LIMIT")
	play(exitOK, "decision   refused, by its ruling", "explain", "client=ann")
	play(exitOK, "", "unblock", "client=ann")
	want("OK")
	want("OK")
	want("OVER_LIMIT")
	play(exitOK, "", "override", "client=ann", "5/1d")
	want("OK") // 4 of 5: refused hits count
	play(exitOK, "5/24h fixed-window count-refused: 1 of 5 left", "explain", "client=ann")
	play(exitOK, "", "override", "client=ann", "--unlimited")
	for range 9 {
		want("OK")
	}
	play(exitOK, "", "override", "client=ann", "--end")
	want("OVER_LIMIT")
	play(exitOK, "seen:    none of them", "block", "unknown=ann")
	s.sendEnvoy("api", 1, "unknown", "ann")
	play(exitOK, `seen:    "unknown=ann"`, "block", "unknown=ann")
	play(exitFailure, "has one limit, not 2", "override", "client=ann", "5/1d", "2/1h")
	play(exitFailure, "has two =", "block", "client=a=b")
}
