package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The exit status is 0 or 1, and one line says why.
func TestHealth(t *testing.T) {
	ready := startServe(t, "--metrics", "127.0.0.1:0")
	closed := startServe(t, "--store", "redis://127.0.0.1:1", "--failure", "closed")
	local := startServe(t, "--store", "redis://127.0.0.1:1", "--failure", "local")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\n</html>\n")) }))
	t.Cleanup(other.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, test := range []struct {
		name, server string
		status       int
		out, err     string
	}{
		{"ready", ready.url("http"), exitOK, "ready\n", ""},
		{"admin listener", ready.url("admin"), exitOK, "ready\n", ""},
		{"metrics listener", ready.url("metrics"), exitOK, "ready\n", ""},
		{"the store is down, and policies decide without it", local.url("http"), exitOK, "degraded: store: ", ""},
		{"the store is down, and requests are refused", closed.url("http"), exitRefused, "", "degraded: store: "},
		{"another program", other.URL, exitRefused, "", "not from a Slidegate service"},
		{"nothing listens", gone.URL, exitRefused, "", "is the service running?"},
		{"no URL", "127.0.0.1:8080", exitRefused, "", "invalid URL"},
	} {
		got := call(t, "health", "--server", test.server)
		lines := strings.Count(got.out+got.err, "\n")
		if got.status != test.status || lines != 1 || !strings.HasPrefix(got.out, test.out) || !strings.Contains(got.err, test.err) {
			t.Errorf("%s: got status %d, %q, %q, want %d, %q, %q in one line", test.name, got.status, got.out, got.err, test.status, test.out, test.err)
		}
	}
}
