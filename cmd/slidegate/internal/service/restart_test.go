package service_test

import (
	"crypto/tls"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// restartNeeded reads the metric.
func (s *started) restartNeeded(t *testing.T) bool {
	t.Helper()
	value, there := s.metric(t, "slidegate_config_restart_needed")
	return there && value == 1
}

// What a reload does not put into force is reported as such, and the hash is that of what is in force.
func TestRestartNeeded(t *testing.T) {
	const policies = "policies: {a: {limits: [5/1h]}}\n"
	for name, test := range map[string]struct{ text, field, inForce, file, line string }{
		"store":   {"store: redis://user:secret@127.0.0.1:1\n" + policies, "store", "memory:", "redis://user:***@127.0.0.1:1", `store: "memory:" # restart needed: `},
		"timeout": {"store_timeout: 3s\n" + policies, "store_timeout", "100ms", "3s", "store_timeout: 100ms # restart needed: "},
		"failure": {"failure: closed\n" + policies, "failure", "not given, for Envoy and CL.THROTTLE", "closed", "failure: closed # restart needed: "},
		"envoy":   {"envoy: {xds: {address: 'h:1', headers: {authorization: secret}}}\n" + policies, "envoy", "none", "h:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var path string
			s := start(t, policies, withMetrics(&path))
			var before, after, back struct {
				Hash, Config string
				Restart      []struct {
					Field   string
					InForce string `json:"in_force"`
					File    string
				} `json:"restart_needed"`
			}
			read := func(method, from string, to any) {
				t.Helper()
				if got := s.send(t, "admin", method, from, ""); json.Unmarshal([]byte(got.body), to) != nil {
					t.Fatalf("got %+v", got)
				}
			}
			read("GET", "/v1/config", &before)
			if len(before.Restart) != 0 || s.restartNeeded(t) {
				t.Errorf("at first: got %+v, want no restart", before.Restart)
			}
			write(t, path, test.text)
			for range 2 { // the second reload changes nothing, and says it again
				read("POST", "/v1/reload", &after)
				if len(after.Restart) != 1 || after.Restart[0].Field != test.field || after.Restart[0].InForce != test.inForce || after.Restart[0].File != test.file {
					t.Errorf("reload: got %+v, want %s: %s in force, %s in the file", after.Restart, test.field, test.inForce, test.file)
				}
			}
			read("GET", "/v1/config", &after)
			if !strings.Contains(after.Config, test.line) || strings.Contains(after.Config, "secret") {
				t.Errorf("got the configuration\n%s\nwant %q and no secret", after.Config, test.line)
			}
			if (after.Hash == before.Hash) != (name != "failure") { // which policies have already
				t.Errorf("got the hash %s after %s", after.Hash, before.Hash)
			}
			if !s.restartNeeded(t) {
				t.Error("the metric is not 1")
			}
			if n := strings.Count(s.Log.String(), "restart to change them"); n != 1 || s.Log.Has("secret") {
				t.Errorf("got %d warnings, want 1:\n%s", n, s.Log)
			}
			write(t, path, "# back\n"+policies)
			read("POST", "/v1/reload", &back)
			if len(back.Restart) != 0 || back.Hash != before.Hash || s.restartNeeded(t) {
				t.Errorf("after the change was undone: got %+v, want the hash %s and no restart", back, before.Hash)
			}
		})
	}
}

// One mistake in a file is logged once, however often it is read.
func TestFailedReloadIsLoggedOnce(t *testing.T) {
	var path string
	tokens := filepath.Join(t.TempDir(), "tokens")
	write(t, tokens, clientToken+"\n")
	s := start(t, plain, func(o *service.Options) { path, o.TokensFile = o.Paths[0], tokens })
	write(t, path, "policies:\n  default: {limits: [9/1h], colour: red}\n")
	testkit.Eventually(t, "the mistake is noticed", func() bool { return s.Log.Has("colour") })
	for range 3 {
		if err := s.Reload(); err == nil {
			t.Error("an invalid file was read")
		}
	}
	if n := strings.Count(s.Log.String(), "colour"); n != 1 {
		t.Errorf("got %d lines, want 1:\n%s", n, s.Log)
	}
	write(t, tokens, "short\n") // another mistake
	_ = s.Reload()
	_ = s.Reload()
	if n := strings.Count(s.Log.String(), "not reloaded; the previous ones stay valid"); n != 1 {
		t.Errorf("got %d lines about tokens, want 1:\n%s", n, s.Log)
	}
	write(t, tokens, clientToken+"\n")
	write(t, path, plain)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	before := strings.Count(s.Log.String(), "colour")
	write(t, path, "policies:\n  default: {limits: [9/1h], colour: red}\n")
	_ = s.Reload()
	if n := strings.Count(s.Log.String(), "colour"); n != before+1 {
		t.Errorf("the same mistake again: got %d lines, want %d:\n%s", n, before+1, s.Log)
	}
}

// The metric has the expiry of the certificate, by listener.
func TestCertificateExpiry(t *testing.T) {
	files := newAuthority(t).server()
	s := start(t, plain, func(o *service.Options) { o.TLS, o.Metrics = files, "127.0.0.1:0" })
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, listener := range []string{"http", "grpc", "resp"} {
		if got, _ := s.metric(t, `slidegate_certificate_expiry_timestamp_seconds{listener="`+listener+`"}`); int64(got) != pair.Leaf.NotAfter.Unix() {
			t.Errorf("%s: got %v, want %d", listener, got, pair.Leaf.NotAfter.Unix())
		}
	}
	if got, there := s.metric(t, `slidegate_certificate_expiry_timestamp_seconds{listener="admin"}`); there {
		t.Errorf("the admin listener, which is on loopback: got %v, want none", got)
	}
}
