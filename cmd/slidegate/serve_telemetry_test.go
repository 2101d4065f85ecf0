package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// collector is a server that receives metrics and traces.
type collector struct {
	*httptest.Server
	mu   sync.Mutex
	sent map[string][]byte // by path
}

func newCollector(t *testing.T) *collector {
	c := &collector{sent: map[string][]byte{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var from io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			from = unzipped
		}
		text, err := io.ReadAll(from)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent[r.Method+" "+r.URL.Path] = append(c.sent[r.Method+" "+r.URL.Path], text...)
	}))
	t.Cleanup(c.Close)
	return c
}

// traffic sends requests to every listener, with recognizable keys. Some are refused.
func (s *runningService) traffic() {
	s.t.Helper()
	for range 3 {
		s.allow("secret-json")
	}
	s.page("http", "/v1/peek/secret-path?key=secret-query")
	r, err := http.NewRequest(http.MethodGet, s.url("http")+"/v1/check", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"X-Forwarded-For": "203.0.113.77", "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/secret-uri", "User-Agent": "secret-agent",
	} {
		r.Header.Set(name, value)
	}
	r.Host = "secret-host"
	for range 3 {
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			s.t.Fatal(err)
		}
		got.Body.Close()
	}
	conn, err := grpc.NewClient(s.addresses["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("secret-agent"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_, err = rls.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), &rls.RateLimitRequest{
		Domain: "web", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "secret-envoy"}}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	client, err := net.Dial("tcp", s.addresses["resp"])
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	fmt.Fprint(client, testkit.Commands("SG.ALLOW default secret-resp\nQUIT"))
	if got, err := io.ReadAll(client); err != nil || !strings.HasPrefix(string(got), "*6\r\n:1") {
		s.t.Fatalf("got %q, %v, want six fields that begin with 1", got, err)
	}
}

// busyFlags returns the flags of a service with policies and rules for the requests of traffic.
func busyFlags(t *testing.T) []string {
	t.Helper()
	return []string{
		"--config", write(t, "policies.yaml", []byte("trusted_proxies: [127.0.0.1]\npolicies:\n  default: {limits: [2/1h sliding-log]}\n")),
		"--envoy", write(t, "domain.yaml", []byte("domain: web\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n")),
	}
}

// Metrics and traces arrive at the collector, including those flushed at shutdown, and contain no keys.
func TestCollector(t *testing.T) {
	c := newCollector(t)
	s := startServeWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}, append(busyFlags(t), "--otlp", "--log-level", "info")...)
	s.traffic()
	s.mustEnd(syscall.SIGTERM)
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, wants := range map[string][]string{
		"POST /v1/metrics": {"service.name", "slidegate", "slidegate.policy.decisions", "slidegate.resp.commands"},
		"POST /v1/traces":  {"service.name", "slidegate", "POST /v1/allow", "/v1/check", "ShouldRateLimit"},
	} {
		for _, want := range wants {
			if !bytes.Contains(c.sent[path], []byte(want)) {
				t.Errorf("%s: %q is missing in the %d bytes", path, want, len(c.sent[path]))
			}
		}
		for _, never := range []string{"secret", "203.0.113.77"} {
			if i := bytes.Index(c.sent[path], []byte(never)); i >= 0 {
				t.Errorf("%s: got a key: %q", path, c.sent[path][max(0, i-60):min(len(c.sent[path]), i+40)])
			}
		}
	}
	if s.printed("secret") || s.printed("203.0.113.77") {
		t.Errorf("got a key in the log:\n%s", s.text())
	}
}

// A collector that refuses connections or never responds does not delay a clean shutdown.
func TestCollectorDown(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never responds
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, at := range []string{"http://127.0.0.1:1", "http://" + mute.Addr().String()} {
		s := startServeWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + at}, append(busyFlags(t), "--otlp", "--log-format", "json")...)
		s.traffic()
		s.mustEnd(syscall.SIGTERM)
		if !s.printed(`"msg":"the last metrics and traces were not sent"`) {
			t.Errorf("the warning is missing:\n%s", s.text())
		}
		_, log, _ := strings.Cut(s.text(), "/v1/allow\n")
		for line := range strings.Lines(log) {
			if !strings.HasPrefix(line, "{") {
				t.Errorf("invalid JSON: %s", line)
			}
		}
	}
}

// Refusals in the log name what refused: limits, also of a policy in shadow mode, or a list, which has no limits.
func TestLogOfRefusals(t *testing.T) {
	policies := write(t, "policies.yaml", []byte("policies: {watched: {limits: [1/1h], shadow: true}, api: {limits: [1/1h], block: ['key:bad']}}\ndefault_policy: api\n"))
	s := startServe(t, "--config", policies, "--log-refusals", "keys")
	for _, body := range []string{`{"policy":"watched","key":"ann"}`, `{"policy":"watched","key":"ann"}`, `{"key":"bad"}`, `{"key":"bob"}`, `{"key":"bob"}`} {
		s.post("/v1/allow", body)
	}
	if !s.await("policy=watched key=ann shadow=true limits=1/1h", "policy=api key=bad left_out=", "policy=api key=bob limits=1/1h") {
		t.Errorf("the log: got %s", s.text())
	}
}

// docs/service.md names only flags and metrics that exist.
func TestServicePageNamesExistingFlags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "service.md"))
	if err != nil {
		t.Fatal(err)
	}
	flags := allFlags(t, "serve", "allow", "block", "check")
	found := regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(string(text), -1)
	if len(found) < 15 {
		t.Errorf("got only %d flags", len(found))
	}
	for _, flag := range found {
		if !flags[flag] {
			t.Errorf("unknown flag %s", flag)
		}
	}

	args := busyFlags(t)
	s := startServe(t, args...)
	s.traffic()
	s.signal(syscall.SIGHUP)
	metrics := regexp.MustCompile(`slidegate_[a-z_]+(?:\{[^}]*\})?`).FindAllString(string(text), -1)
	if len(metrics) < 5 {
		t.Errorf("got only %d metrics", len(metrics))
	}
	far := startServe(t, "--store", "redis://127.0.0.1:1") // the store is down, and it starts nevertheless
	for _, metric := range metrics {
		name, _, _ := strings.Cut(metric, "{")
		where := s
		if strings.HasPrefix(name, "slidegate_leases_") { // only with remote stores
			where = far
		}
		where.awaitPage("admin", "/metrics", "\n# TYPE "+name+" ")
	}
	_, page := s.page("admin", "/metrics")
	for _, never := range []string{"secret", "203.0.113.77"} {
		if strings.Contains(page, never) {
			t.Errorf("got a key on /metrics:\n%s", page)
		}
	}
	// The label in the documentation is that of a failed reload.
	if err := os.WriteFile(args[1], []byte("policies: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	const failed = `slidegate_reloads_total{outcome="failed"}`
	if !bytes.Contains(text, []byte(failed)) {
		t.Errorf("the documentation no longer names %s", failed)
	}
	s.awaitPage("admin", "/metrics", failed+" 1")
	for _, path := range regexp.MustCompile("`(/(?:v1/|metrics|healthz|readyz)[a-z]*)`").FindAllStringSubmatch(string(text), -1) {
		status, _ := s.page("admin", path[1])
		public, _ := s.page("http", path[1])
		if status == http.StatusNotFound && public == http.StatusNotFound {
			t.Errorf("unknown path %s", path[1])
		}
	}
}

// docs/observability.md names exactly the metrics that exist, in tables of the service or on its page, and only flags that exist.
func TestObservabilityDoc(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "observability.md"))
	if err != nil {
		t.Fatal(err)
	}
	flags := allFlags(t, "serve")
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(string(text), -1) {
		if !flags[flag] {
			t.Errorf("unknown flag %s", flag)
		}
	}
	args := busyFlags(t)
	if err := os.WriteFile(args[1], []byte("trusted_proxies: [127.0.0.1]\npolicies:\n  default: {limits: [2/1h notify=50%]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	near := startServe(t, append(args, "--state", filepath.Join(t.TempDir(), "state"))...)
	near.traffic()
	far := startServe(t, "--store", "redis://127.0.0.1:1") // the store is down, and it starts nevertheless
	far.allow("key")
	there := map[string]bool{}
	for _, s := range []*runningService{near, far} {
		_, page := s.page("admin", "/metrics")
		for _, found := range regexp.MustCompile(`(?m)^# TYPE (slidegate_\w+) `).FindAllStringSubmatch(page, -1) {
			there[found[1]] = true
		}
	}
	if len(there) < 30 {
		t.Errorf("got only %d metrics", len(there))
	}
	for _, name := range slices.Concat(service.MetricNames(), open.MetricNames()) { // also those without a value here
		there[name] = true
	}
	documented := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		for _, name := range regexp.MustCompile(`slidegate_[a-z_]+`).FindAllString(line, -1) {
			documented[name] = true
			if !there[name] && !strings.Contains(line, "starts with the first one") && name != "slidegate_decision_duration_seconds" { // part of a sample
				t.Errorf("unknown metric %s", name)
			}
		}
	}
	for name := range there {
		if !documented[name] {
			t.Errorf("%s is not documented", name)
		}
	}
}

// docs/before-you-expose-it.md names only flags of serve, proxy, reload and rulings that exist, and its links lead to files.
func TestExposePageNamesExistingFlags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "before-you-expose-it.md"))
	if err != nil {
		t.Fatal(err)
	}
	flags := allFlags(t, "serve", "proxy", "reload", "rulings")
	found := regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(string(text), -1)
	if len(found) < 10 {
		t.Errorf("got only %d flags", len(found))
	}
	for _, flag := range found {
		if !flags[flag] {
			t.Errorf("unknown flag %s", flag)
		}
	}
	for _, linked := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("..", "..", "docs", string(linked[1]))); err != nil {
			t.Errorf("broken link: %v", err)
		}
	}
}

// allFlags returns the flags of some commands.
func allFlags(t *testing.T, names ...string) map[string]bool {
	t.Helper()
	parser, err := kong.New(&commands{}, kong.Vars(helpVars()))
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]bool{}
	for _, command := range parser.Model.Leaves(false) {
		for _, flag := range command.Flags {
			flags["--"+flag.Name] = flags["--"+flag.Name] || slices.Contains(names, command.Name)
		}
	}
	return flags
}
