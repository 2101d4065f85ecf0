package service_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestReload: a changed file is read again, counts are kept, and an invalid file changes nothing.
func TestReload(t *testing.T) {
	var path string
	s := start(t, plain, func(o *service.Options) { path = o.Paths[0] })
	s.allow(t, "default", "me")
	s.allow(t, "default", "me")
	if got := s.allow(t, "default", "me"); got != http.StatusTooManyRequests {
		t.Fatalf("the third of 2: got %d, want 429", got)
	}

	write(t, path, "policies:\n  default:\n    limits: [9/1h]\n    colour: red\n")
	testkit.Eventually(t, "the invalid file is noticed", func() bool { return s.Log.Has("colour") })
	if got := s.allow(t, "default", "me"); got != http.StatusTooManyRequests {
		t.Errorf("after an invalid file: got %d, want 429", got)
	}
	testkit.Eventually(t, "the metric counts it", func() bool {
		return strings.Contains(s.send(t, "admin", "GET", "/metrics", "").body, `slidegate_reloads_total{outcome="failed"} 1`)
	})

	// As editors and Kubernetes do it: another file replaces it.
	other := path + ".new"
	write(t, other, "policies:\n  default:\n    limits: [3/1h]\n")
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the valid file is in force", func() bool { return s.Log.Has("policies reloaded") })
	if got := s.allow(t, "default", "me"); got != http.StatusOK {
		t.Errorf("the third of 3: got %d, want 200", got)
	}
	if got := s.allow(t, "default", "me"); got != http.StatusTooManyRequests {
		t.Errorf("the fourth of 3: got %d, want 429: the counts were lost", got)
	}
}

// TestMissingFileChangesNothing: a missing file changes nothing.
func TestMissingFileChangesNothing(t *testing.T) {
	var path string
	s := start(t, plain, func(o *service.Options) { path = o.Paths[0] })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil {
		t.Error("a missing file was read")
	}
	if got := s.allow(t, "default", "me"); got != http.StatusOK {
		t.Errorf("afterwards: got %d, want 200", got)
	}
}

// TestReloadEnvoy: the domain files are watched too, and if one of all files is invalid, none is loaded.
func TestReloadEnvoy(t *testing.T) {
	domain := filepath.Join(t.TempDir(), "domain.yaml")
	text := "domain: web\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"
	write(t, domain, text)
	var path string
	s := start(t, plain, func(o *service.Options) { o.Envoy, path = []string{domain}, o.Paths[0] })
	user := 0
	second := func() int { // the status of a new user's second request
		user++
		var status int
		for range 2 {
			status = s.send(t, "http", "POST", "/json", fmt.Sprintf(`{"domain":"web","descriptors":[{"entries":[{"key":"user","value":"%d"}]}]}`, user)).status
		}
		return status
	}
	if got := second(); got != http.StatusTooManyRequests {
		t.Fatalf("the second of 1: got %d, want 429", got)
	}
	write(t, domain, strings.Replace(text, "unit: 1", "unit: 9", 1))
	write(t, path, "policies: {}\n")
	testkit.Eventually(t, "the invalid file is noticed", func() bool { return s.Log.Has("no policies") })
	if got := second(); got != http.StatusTooManyRequests {
		t.Errorf("one of two files is invalid: got %d, want the other not loaded", got)
	}
	write(t, path, plain)
	testkit.Eventually(t, "the domain is in force", func() bool { return second() == http.StatusOK })
}

// TestReloadFolder: the domains of a folder that the policy file names are always those of the rule files in it.
func TestReloadFolder(t *testing.T) {
	folder := t.TempDir()
	rules := func(domain string) string {
		return "domain: " + domain + "\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 0}\n"
	}
	write(t, filepath.Join(folder, "first.yaml"), rules("first"))
	write(t, filepath.Join(folder, ".hidden.yaml"), "no rules")
	write(t, filepath.Join(folder, "README.md"), "no rules")
	s := start(t, plain+"envoy: {files: ["+folder+"]}\n", nil)
	limited := func(domain string) bool {
		return s.send(t, "http", "POST", "/json", fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":"user"}]}]}`, domain)).status == http.StatusTooManyRequests
	}
	if !limited("first") || limited("second") {
		t.Error("want only the first domain")
	}
	write(t, filepath.Join(folder, "second.yml"), rules("second"))
	testkit.Eventually(t, "the second file is noticed", func() bool { return limited("second") })
	if err := os.Remove(filepath.Join(folder, "first.yaml")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the removed file is noticed", func() bool { return !limited("first") })
	if err := os.Remove(filepath.Join(folder, "second.yml")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the empty folder is noticed", func() bool { return s.Log.Has("has no file that ends in .yaml or .yml") })
	if !limited("second") {
		t.Error("an empty folder was taken to mean no limits")
	}
}

// TestReloadIsAllOrNothing: valid policies are reverted if the domains are invalid, which is noticed only when they are merged.
func TestReloadIsAllOrNothing(t *testing.T) {
	var path string
	other := filepath.Join(t.TempDir(), "other.yaml")
	write(t, other, "domain: other\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n")
	s := start(t, plain, func(o *service.Options) { o.Envoy, path = []string{domainFile(t), other}, o.Paths[0] })
	write(t, other, "domain: web\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n")
	write(t, path, "trusted_proxies: []\npolicies:\n  default:\n    limits: [9/1h]\n  new:\n    limits: [9/1h]\n")
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "has a rate_limit here and in") {
		t.Fatalf("two files of one domain: got %v", err)
	}
	trusted := func() int {
		return s.send(t, "http", "GET", "/v1/check", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", "192.0.2.1").status
	}
	if got := trusted(); got != http.StatusOK {
		t.Errorf("a proxy that only the rejected file does not trust: got %d", got)
	}
	for i, want := range []int{200, 200, 429} {
		if got := s.allow(t, "default", "me"); got != want {
			t.Errorf("request %d of 2: got %d, want %d", i, got, want)
		}
	}
	if got := s.allow(t, "new", "me"); got != http.StatusNotFound {
		t.Errorf("the new policy: got %d, want 404", got)
	}
	write(t, other, "domain: other\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := s.allow(t, "new", "me"); got != http.StatusOK {
		t.Errorf("the new policy, when all files are valid: got %d, want 200", got)
	}
	if got := trusted(); got != http.StatusForbidden {
		t.Errorf("a proxy that is no longer trusted: got %d", got)
	}
}

// TestReloadInBusyFolder: a file is read again even if something else in its folder changes all the time.
func TestReloadInBusyFolder(t *testing.T) {
	var path string
	s := start(t, plain, func(o *service.Options) { path = o.Paths[0] })
	write(t, path, "policies:\n  default:\n    limits: [3/1h]\n")
	noise := filepath.Join(filepath.Dir(path), "noise")
	n := 0
	testkit.Eventually(t, "the file is read again", func() bool {
		n++
		write(t, noise, fmt.Sprint(n))
		return s.Log.Has("policies reloaded")
	})
}

// TestStartWithoutDomainsLogsNothing: without domains, nothing about domains is logged.
func TestStartWithoutDomainsLogsNothing(t *testing.T) {
	s := start(t, plain, nil)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if s.Log.Has("domains") {
		t.Errorf("unexpected log:\n%s", s.Log)
	}
}
