package main

import (
	"strings"
	"testing"
)

// The flags set what environment variables set in envoyproxy/ratelimit.
func TestServeEnvoyFlags(t *testing.T) {
	rules := write(t, "rules.yaml", []byte("domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 0}}\n- {key: other, rate_limit: {unit: hour, requests_per_unit: 9}}\n"))
	for _, c := range []struct {
		flags    string
		status   int
		has, not []string
	}{
		{"", 429, []string{`"responseHeadersToAdd"`, `"OVER_LIMIT"`}, []string{`"requestHeadersToAdd"`, `"dynamicMetadata"`}},
		{"--envoy-headers request", 429, []string{`"requestHeadersToAdd"`}, []string{`"responseHeadersToAdd"`}},
		{"--envoy-headers both --envoy-metadata", 429, []string{`"requestHeadersToAdd"`, `"responseHeadersToAdd"`, `"dynamicMetadata"`}, nil},
		{"--envoy-headers none --envoy-quota", 200, []string{`"overallCode":"OK"`, `"OVER_LIMIT"`}, nil},
		{"--envoy-headers none --envoy-shadow", 200, []string{`"overallCode":"OK"`, `"OVER_LIMIT"`}, []string{"HeadersToAdd"}},
	} {
		s := startServe(t, append(strings.Fields(c.flags), "--envoy", rules)...)
		status, text := s.post("/json", `{"domain":"d","descriptors":[{"entries":[{"key":"k"}]},{"entries":[{"key":"other"}]}]}`)
		if status != c.status {
			t.Errorf("%s: got %d %s, want %d", c.flags, status, text, c.status)
		}
		body := strings.ReplaceAll(text, " ", "") // protojson inserts spaces at random
		for _, part := range c.has {
			if !strings.Contains(body, part) {
				t.Errorf("%s: %s is missing in %s", c.flags, part, body)
			}
		}
		for _, part := range c.not {
			if strings.Contains(body, part) {
				t.Errorf("%s: got %s in %s", c.flags, part, body)
			}
		}
	}
}
