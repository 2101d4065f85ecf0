package service_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
)

// While the store is down, /readyz responds with 503 only if something refuses all requests: a policy in mode closed that is not in
// shadow mode, or rules for Envoy if the file sets that mode for them.
func TestReadyWithoutStore(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 1}}\n")
	for name, test := range map[string]struct {
		file   string
		envoy  bool
		status int
		want   string
	}{
		"the default":                  {"policies: {api: {limits: [1/1h]}}", false, 200, "degraded: store: "},
		"a closed policy":              {"policies: {api: {limits: [1/1h]}, login: {limits: [1/1h], failure: closed}}", false, 503, "requests of login\""},
		"all are closed":               {"failure: closed\npolicies: {api: {limits: [1/1h]}, login: {limits: [1/1h]}}", false, 503, "requests of api, login\""},
		"a closed policy in shadow":    {"policies: {login: {limits: [1/1h], failure: closed, shadow: true}}", false, 200, "degraded: store: "},
		"Envoy gets errors":            {"policies: {api: {limits: [1/1h]}}", true, 200, "degraded: store: "},
		"Envoy's requests are refused": {"failure: closed\npolicies: {api: {limits: [1/1h], failure: local}}", true, 503, "requests of Envoy\""},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, "store: redis://127.0.0.1:1\n"+test.file+"\n", func(o *service.Options) {
				if test.envoy {
					o.Envoy = []string{rules}
				}
			})
			if got := s.send(t, "http", "GET", "/readyz", ""); got.status != test.status || !strings.Contains(got.body, test.want) {
				t.Errorf("got %d %s, want %d and %q", got.status, got.body, test.status, test.want)
			}
			if got := s.send(t, "http", "GET", "/readyz?require=store", ""); got.status != http.StatusServiceUnavailable {
				t.Errorf("with require=store: got %d, want 503", got.status)
			}
			if got := s.send(t, "admin", "GET", "/metrics", "").body; !strings.Contains(got, "\nslidegate_store_up{store=\"redis\"} 0\n") {
				t.Error("the metrics do not say that the store is down")
			}
		})
	}
}

// The failure modes are described with what they do, and a reload changes the description.
func TestFailureModesAreDescribed(t *testing.T) {
	const local, closed = "local (each of 3 instances counts by itself, up to 1/3 of each limit)", "closed (refuses all)"
	path := ""
	s := start(t, "policies: {api: {limits: [1/1h]}}\n", func(o *service.Options) { o.Instances, path = 3, o.Paths[0] })
	if got := s.FailureModes(); got != local {
		t.Errorf("got %q, want %q", got, local)
	}
	write(t, path, "policies: {api: {limits: [1/1h]}, login: {limits: [1/1h], failure: closed}, web: {limits: [1/1h]}}\n")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got, want := s.FailureModes(), local+" for api, web; "+closed+" for login"; got != want {
		t.Errorf("after a reload: got %q, want %q", got, want)
	}
}
