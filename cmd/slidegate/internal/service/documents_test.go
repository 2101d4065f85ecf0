package service_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
)

// documentedPaths returns the paths in a listener's OpenAPI document, with a method for each.
func documentedPaths(t *testing.T, s *started, listener string) map[string]string {
	t.Helper()
	got := s.send(t, listener, "GET", "/v1/openapi.json", "")
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(got.body), &document); err != nil || document.OpenAPI != "3.1.0" {
		t.Fatalf("%s: the document is %q, %v: %d", listener, document.OpenAPI, err, got.status)
	}
	paths := map[string]string{}
	for path, operations := range document.Paths {
		for method := range operations {
			paths[path] = strings.ToUpper(method)
		}
	}
	return paths
}

// TestDocumentsOfListeners: each listener serves exactly the paths in its document, with and without Envoy, and lists them in the
// response to requests for other paths.
func TestDocumentsOfListeners(t *testing.T) {
	source, err := os.ReadFile("http.go")
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"/v1/nosuch", "/debug/pprof/", "/v1/", "/favicon.ico"} // which no listener has
	for _, found := range regexp.MustCompile(`mux\.Handle(?:Func)?\("(?:[A-Z]+ )?(/[a-z0-9/.]+)"`).FindAllStringSubmatch(string(source), -1) {
		all = append(all, found[1])
	}
	for name, change := range map[string]func(*service.Options){
		"with Envoy": func(o *service.Options) { o.Envoy = []string{domainFile(t)} }, "without": func(o *service.Options) { o.GRPC = "" },
		"without rules": nil, // which is the default
	} {
		s := start(t, roomy, change)
		has := map[string]map[string]string{"http": documentedPaths(t, s, "http"), "admin": documentedPaths(t, s, "admin")}
		for _, paths := range has {
			for path := range paths {
				all = append(all, path)
			}
		}
		slices.Sort(all)
		all = slices.Compact(all)
		if len(all) < 18 {
			t.Errorf("found only %q", all)
		}
		for listener, paths := range has {
			for _, path := range all {
				method, promised := paths[path]
				if !promised {
					method = http.MethodGet
				}
				body := ""
				if method == http.MethodPost {
					body = `{"key":"me"}`
				}
				target := path
				if path == "/v1/seen/stream" {
					target += "?n=0" // otherwise it does not end
				}
				got := s.send(t, listener, method, target, body)
				answered := (got.status != http.StatusNotFound || strings.Contains(got.body, `"field":`)) && got.status != http.StatusMethodNotAllowed
				if answered != promised {
					t.Errorf("%s: %s %s %s: got %d; in the document: %v\n%s", name, listener, method, path, got.status, promised, got.body)
				}
				if promised || got.status != http.StatusNotFound || answered {
					continue
				}
				for want := range paths {
					if !strings.Contains(got.body, want) {
						t.Errorf("%s: %s %s: got %s, want it to name %s", name, listener, path, got.body, want)
					}
				}
			}
		}
		for listener, want := range map[string][2]string{"http": {"/v1/check", "/v1/reset"}, "admin": {"/v1/seen", "/v1/allow"}} {
			_, own := has[listener][want[0]]
			_, foreign := has[listener][want[1]]
			if !own || foreign {
				t.Errorf("%s: %s has %v", name, listener, has[listener])
			}
		}
	}
}
