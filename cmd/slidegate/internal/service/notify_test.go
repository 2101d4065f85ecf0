package service_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// A key that reaches a threshold is counted, also one that a reload adds, and the log has a hash of the key.
func TestNotify(t *testing.T) {
	var path string
	s := start(t, "policies: {api: {limits: [10/1h notify=80%]}, trial: {shadow: true, limits: [1/1h notify=100%]}}\n",
		func(o *service.Options) { path = o.Paths[0] })
	wantMetrics := func(lines ...string) {
		t.Helper()
		page := s.send(t, "admin", "GET", "/metrics", "").body
		for _, line := range lines {
			if !strings.Contains(page, "\nslidegate_near_limit_total{"+line+"\n") {
				t.Errorf("no %s in\n%s", line, page)
			}
		}
	}
	wantMetrics(`policy="api",threshold="80%"} 0`, `policy="trial",threshold="100%"} 0`)
	for range 9 {
		s.allow(t, "api", "ann")
	}
	for range 3 {
		s.allow(t, "trial", "ann")
	}
	wantMetrics(`policy="api",threshold="80%"} 1`, `policy="trial",threshold="100%"} 1`)
	write(t, path, "policies: {api: {limits: [\"10/1h notify=80%,100%\"]}}\n")
	testkit.NoError(t, s.Reload())
	wantMetrics(`policy="api",threshold="100%"} 0`)
	s.allow(t, "api", "ann")
	wantMetrics(`policy="api",threshold="80%"} 1`, `policy="api",threshold="100%"} 1`)
	s.Stop(t)
	for _, line := range []string{"limit=10/1h threshold=80% left_out=0", "limit=1/1h threshold=100% left_out=0", "limit=10/1h threshold=100% left_out=0"} {
		if log := s.Log.String(); strings.Count(log, line) != 1 || strings.Contains(log, "ann") {
			t.Errorf("want one line with %s, and no key, in\n%s", line, log)
		}
	}
}
