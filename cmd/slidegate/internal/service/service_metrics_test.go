package service_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// metric returns the value of a series on /metrics, and whether it exists.
func (s *started) metric(t *testing.T, series string) (value float64, there bool) {
	t.Helper()
	page := s.send(t, "metrics", "GET", "/metrics", "").body
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(page)
	if found == nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(found[1], 64)
	testkit.NoError(t, err)
	return value, true
}

// hash returns the hash of the files in force.
func (s *started) hash(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`slidegate_config_info\{hash="(\w+)"\} 1`).FindStringSubmatch(s.send(t, "metrics", "GET", "/metrics", "").body)
	if found == nil {
		t.Fatal("got no hash")
	}
	return found[1]
}

func withMetrics(path *string) func(*service.Options) {
	return func(o *service.Options) {
		o.Metrics, o.Version, o.Commit = "127.0.0.1:0", "v1.2.3", "abc"
		if path != nil {
			*path = o.Paths[0]
		}
	}
}

// TestSeriesFromTheStart: series for events that have not happened yet are 0 and not missing, also for a policy that a reload adds.
// Labels have no prefix, limits have their policy.
func TestSeriesFromTheStart(t *testing.T) {
	var path string
	const file = "policies:\n  api: {limits: [5/1m]}\n  b: {limits: [5/1m]}\n"
	s := start(t, file, withMetrics(&path))
	zero := func(series string) {
		t.Helper()
		if value, there := s.metric(t, series); !there || value != 0 {
			t.Errorf("%s: got %v, %v, want 0", series, value, there)
		}
	}
	for _, policy := range []string{"api", "b"} {
		for _, outcome := range []string{"admitted", "refused", "shadow_refused", "error"} {
			zero(`slidegate_policy_decisions_total{by="limits",outcome="` + outcome + `",policy="` + policy + `"}`)
		}
		for _, outcome := range []string{"admitted", "refused", "error"} {
			zero(`slidegate_decisions_total{limit="5/1m",outcome="` + outcome + `",policy="` + policy + `",source="store",store="memory"}`)
		}
	}
	for _, listener := range []string{"http", "resp"} {
		zero(`slidegate_listener_decision_duration_seconds_count{listener="` + listener + `"}`)
	}
	zero(`slidegate_requests_total{listener="http",status="429"}`)
	zero(`slidegate_requests_total{listener="grpc",status="Unavailable"}`)
	zero(`slidegate_requests_total{listener="resp",status="error"}`)
	zero(`slidegate_reloads_total{outcome="failed"}`)
	page := s.send(t, "metrics", "GET", "/metrics", "").body
	if strings.Contains(page, "{slidegate_") || strings.Contains(page, ",slidegate_") {
		t.Errorf("a label has a prefix:\n%s", page)
	}
	write(t, path, file+"  late: {limits: [7/1m]}\n")
	testkit.Eventually(t, "the policy of the new file", func() bool {
		_, there := s.metric(t, `slidegate_policy_decisions_total{by="limits",outcome="refused",policy="late"}`)
		return there
	})
	zero(`slidegate_decisions_total{limit="7/1m",outcome="refused",policy="late",source="store",store="memory"}`)
}

// TestReloadMetrics: the result and time of the last reload, and the hash of the files in force, which is the old one while the new
// file is invalid, and the same for the same files elsewhere.
func TestReloadMetrics(t *testing.T) {
	var path string
	const one, two = "policies: {p: {limits: [5/1m]}}\n", "policies: {p: {limits: [6/1m]}}\n"
	s, other := start(t, one, withMetrics(&path)), start(t, two, withMetrics(nil))
	first := s.hash(t)
	if first == other.hash(t) {
		t.Error("two files have the same hash")
	}
	began, _ := s.metric(t, "slidegate_config_last_reload_success_timestamp_seconds")
	if age := time.Since(time.UnixMilli(int64(began * 1000))); age < 0 || age > testkit.Patience {
		t.Errorf("the start is %v ago", age)
	}
	await := func(value float64) {
		t.Helper()
		testkit.Eventually(t, "the result of the reload", func() bool {
			got, there := s.metric(t, "slidegate_config_last_reload_successful")
			return there && got == value
		})
	}
	await(1)
	write(t, path, "policies: {p: {limits: [oops]}}\n")
	await(0)
	if failed, _ := s.metric(t, `slidegate_reloads_total{outcome="failed"}`); failed != 1 || s.hash(t) != first {
		t.Errorf("after an invalid file: got %v failures and the hash %s, want 1 and %s", failed, s.hash(t), first)
	}
	write(t, path, two)
	await(1)
	if got := s.hash(t); got != other.hash(t) {
		t.Errorf("the same file has the hash %s here and %s there", got, other.hash(t))
	}
	if now, _ := s.metric(t, "slidegate_config_last_reload_success_timestamp_seconds"); now <= began {
		t.Errorf("got last reload at %v, want it after %v", now, began)
	}
}

// TestBuildStoreAndStateMetrics: the build, the store, the folder of the state, and requests by status.
func TestBuildStoreAndStateMetrics(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	s := start(t, "policies: {p: {limits: [2/1h]}}\n", func(o *service.Options) {
		withMetrics(nil)(o)
		o.State = state
	})
	if page := s.send(t, "metrics", "GET", "/metrics", "").body; !regexp.MustCompile(`slidegate_build_info\{commit="abc",go="go1[^"]+",version="v1.2.3"\} 1`).MatchString(page) {
		t.Errorf("got no build_info:\n%s", page)
	}
	if up, _ := s.metric(t, `slidegate_store_up{store="memory"}`); up != 1 {
		t.Errorf("store_up: got %v, want 1", up)
	}
	for series, least := range map[string]float64{"slidegate_state_durable": 1, "slidegate_state_size_bytes": 1} {
		if got, found := s.metric(t, series); !found || got < least {
			t.Errorf("%s: got %v, want at least %v", series, got, least)
		}
	}
	if got, found := s.metric(t, "slidegate_state_failures_total"); !found || got != 0 {
		t.Errorf("state failures: got %v, %v", got, found)
	}
	for range 5 {
		s.allow(t, "p", "k")
	}
	s.send(t, "http", "GET", "/nowhere", "")
	for series, want := range map[string]float64{
		`slidegate_requests_total{listener="http",status="200"}`: 2, `slidegate_requests_total{listener="http",status="429"}`: 3,
		`slidegate_requests_total{listener="http",status="404"}`: 1,
	} {
		if got, _ := s.metric(t, series); got != want {
			t.Errorf("%s: got %v, want %v", series, got, want)
		}
	}
	for _, path := range []string{"/v1/seen", "/v1/allow"} { // this listener requires no token and serves only metrics and health
		if got := s.send(t, "metrics", "GET", path, "").status; got != 404 {
			t.Errorf("%s: got %d, want 404", path, got)
		}
	}
}
