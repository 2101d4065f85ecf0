package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// jsonLines parses a log. Every line must be a JSON object without durations in nanoseconds.
func jsonLines(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var read map[string]any
		if err := json.Unmarshal([]byte(line), &read); err != nil {
			t.Errorf("not JSON: %s", line)
		}
		for name, value := range read {
			if number, ok := value.(float64); ok && number > 1e6 {
				t.Errorf("%s is %v, which may be nanoseconds: %s", name, number, line)
			}
		}
		all = append(all, read)
	}
	return all
}

// With --log-format json, every line from the first to the last is JSON with readable durations, including the errors of a failed
// start.
func TestJSONLogIsAllJSON(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	rules := write(t, "rules.yaml", []byte("domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 1}}\n"))
	s := startServe(t, "--log-format", "json", "--metrics", "127.0.0.1:0", "--envoy", rules, "--store", "redis://127.0.0.1:1")
	s.allow("me")
	s.mustEnd(syscall.SIGTERM)
	within, listening := "", map[any]bool{}
	for _, line := range jsonLines(t, s.text()) {
		switch line["msg"] {
		case "draining":
			within, _ = line["within"].(string)
		case "listening":
			listening[line["listener"]] = line["address"] != ""
		}
	}
	if within != "10s" {
		t.Errorf("got draining within %q, want 10s:\n%s", within, s.text())
	}
	if want := []string{"http", "grpc", "resp", "admin", "metrics"}; len(listening) != len(want) {
		t.Errorf("got listeners %v, want %v:\n%s", listening, want, s.text())
	}
	for _, wrong := range [][]string{{"--http", taken.Addr().String()}, {"--limit", "ten"}, {"--drain", "0s"}, {"--config", "missing"}} {
		failed := launch(t, nil, append([]string{"serve", "--log-format", "json", "--grpc", "off", "--resp", "off", "--admin", "off"}, wrong...)...)
		if status := failed.status(); status != exitFailure {
			t.Errorf("%v: got status %d, want %d", wrong, status, exitFailure)
		}
		if got := jsonLines(t, failed.text()); len(got) != 1 || got[0]["level"] != "ERROR" || !strings.Contains(failed.text(), wrong[0]+": ") {
			t.Errorf("%v: got\n%s\nwant one line of level ERROR that names the flag", wrong, failed.text())
		}
	}
}

// With Envoy rules, the banner lists their domains, and marks the default policy as built in.
func TestBannerListsEnvoyDomains(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "domain: shop\ndescriptors:\n- key: k\n  rate_limit: {unit: hour, requests_per_unit: 1}\n" +
			"  descriptors:\n  - {key: l, value: a*, rate_limit: {unit: hour, requests_per_unit: 1}}\n  - {key: l, rate_limit: {unit: hour, requests_per_unit: 1}}\n",
		"b.yaml": "domain: web\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 1}}\n- {key: l}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const envoy = "  envoy     4 rules in 2 domains: shop, web\n"
	for _, test := range []struct {
		args    []string
		has     []string
		builtIn bool
	}{
		{[]string{"--envoy", folder}, []string{envoy}, true},
		{[]string{"--envoy", folder, "--limit", "5/1m"}, []string{envoy, "default: 5/1m"}, false},
		{nil, []string{"default: 100/1m"}, false},
	} {
		s := startServe(t, test.args...)
		for _, want := range test.has {
			if !strings.Contains(s.text()+"\n", want) {
				t.Errorf("%v: %q is not in\n%s", test.args, want, s.text())
			}
		}
		if got := s.printed("built in, not for Envoy"); got != test.builtIn {
			t.Errorf("%v: got a built-in policy: %v, want %v:\n%s", test.args, got, test.builtIn, s.text())
		}
	}
}

// The port in the annotation of the Kubernetes manifests serves metrics without a token, and no keys.
func TestKubernetesMetricsPort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "redis.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	port := regexp.MustCompile(`prometheus\.io/port: "(\d+)"`).FindSubmatch(text)
	if port == nil {
		t.Fatal("no annotation prometheus.io/port")
	}
	flag := regexp.MustCompile(`--([a-z]+)=0\.0\.0\.0:` + string(port[1])).FindSubmatch(text)
	if flag == nil {
		t.Fatalf("nothing listens on port %s", port[1])
	}
	name := string(flag[1])
	s := startServeWith(t, []string{"SLIDEGATE_TOKENS=a-token-of-24-characters"}, "--"+name, "127.0.0.1:0")
	if status, page := s.page(name, "/metrics"); status != 200 || !strings.Contains(page, "slidegate_policies 1") {
		t.Errorf("/metrics of --%s without a token: got %d, want 200:\n%s", name, status, page)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _ := s.page(name, path); status != 200 {
			t.Errorf("%s: got %d, want 200", path, status)
		}
	}
	for _, path := range []string{"/", "/v1/seen", "/v1/explain?key=me", "/v1/reset", "/v1/allow", "/v1/check", "/v1/rulings", "/v1/config", "/debug/pprof/", "/metrics/"} {
		if status, _ := s.page(name, path); status != 404 {
			t.Errorf("%s: got %d, want 404", path, status)
		}
	}
	if status, _ := s.page("admin", "/metrics"); status != 401 {
		t.Errorf("/metrics of the admin listener without a token: got %d, want 401", status)
	}
}
