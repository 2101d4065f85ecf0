package main

import (
	"encoding/json"
	"fmt"
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

// What rules refuse is shown by domain and rule, and their descriptors are no keys of a policy.
func TestEnvoyRefusals(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	rules := write(t, "rules.yaml", []byte("domain: api\ndescriptors:\n- key: path\n  value: /export/*\n  descriptors:\n"+
		"  - {key: client, rate_limit: {unit: day, requests_per_unit: 2}}\n"))
	s := startServe(t, "--envoy", rules)
	for _, code := range []string{"OK", "OK", "OVER_LIMIT"} {
		if got := s.sendEnvoy("api", 1, "path", "/export/a,b", "client", "ann"); got != code {
			t.Fatalf("got %s, want %s", got, code)
		}
	}
	_, text := s.page("admin", "/v1/seen")
	var seen struct {
		Keys map[string]struct {
			Refused []struct {
				Policy, Limit string
				Refused       int
				Routes        []string
			}
			Nearest []any
		}
	}
	if err := json.Unmarshal([]byte(text), &seen); err != nil {
		t.Fatal(err)
	}
	of := seen.Keys["60"]
	if got := fmt.Sprint(of.Refused, of.Nearest); got != "[{envoy:api 2/24h fixed-window count-refused 1 [api.path_/export/*.client]}] []" {
		t.Errorf("/v1/seen: got %s", got)
	}
	if _, page := s.page("admin", "/metrics"); !strings.Contains(page, `rule="api.path_/export/*.client"`) {
		t.Error("/metrics: the path of the rule is missing")
	}
	for _, command := range []string{"explain", "reset", "block"} {
		commandLines{{[]string{command, "path=/export/a,client=ann", "--policy", "envoy:api"}, exitFailure, `unknown policy: "envoy:api" is not a policy`}}.play(t, "--server", s.url("admin"))
	}
}
