package service_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// reloadsOf returns how many reloads /metrics counts, by outcome, and fails the test if another metric counts them too.
func reloadsOf(t *testing.T, s *started, headers ...string) map[string]string {
	t.Helper()
	page := s.send(t, "admin", "GET", "/metrics", "", headers...).body
	all := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^([a-z_]*reload[a-z_]*)\{.*?outcome="([a-z]+)".*\} (\d+)$`).FindAllStringSubmatch(page, -1) {
		if found[1] != "slidegate_reloads_total" {
			t.Errorf("the metric %s counts reloads too", found[1])
		}
		all[found[2]] = found[3]
	}
	return all
}

// TestReloadsAreCounted: whichever file is invalid, and in whatever way, one metric counts the failed reload.
func TestReloadsAreCounted(t *testing.T) {
	folder := t.TempDir()
	rules, tokens := filepath.Join(folder, "rules.yaml"), filepath.Join(folder, "tokens")
	const goodRules = "domain: web\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"
	write(t, rules, goodRules)
	write(t, tokens, "a-token-of-24-characters\n")
	auth := []string{"Authorization", "Bearer a-token-of-24-characters"}
	var path string
	s := start(t, plain, func(o *service.Options) {
		o.Envoy, path, o.TokensFile = []string{rules}, o.Paths[0], tokens
	})
	if got := reloadsOf(t, s, auth...); got["failed"] != "0" || got["ok"] != "0" {
		t.Errorf("before any reload: got %v", got)
	}
	for _, bad := range []struct{ path, text, good string }{
		{path, "policies: {}\n", plain},
		{path, "policies:\n  default:\n    limits: [9/1h]\n    colour: red\n", plain},
		{path, "\tnot yaml", plain},
		{rules, "domain: web\ndescriptors: 7\n", goodRules},
		{tokens, "short\n", "a-token-of-24-characters\n"},
	} {
		// The watcher may reload first, which counts too.
		before := reloadsOf(t, s, auth...)["failed"]
		write(t, bad.path, bad.text)
		if err := s.Reload(); err == nil {
			t.Errorf("%q was accepted", bad.text)
		}
		if got := reloadsOf(t, s, auth...)["failed"]; got == before {
			t.Errorf("%q: failed is still %s", bad.text, got)
		}
		write(t, bad.path, bad.good)
		if err := s.Reload(); err != nil {
			t.Errorf("after %q: got %v", bad.text, err)
		}
	}
	failed := reloadsOf(t, s, auth...)["failed"]
	write(t, path, "policies:\n  default:\n    limits: [7/1h]\n")
	if err := s.Reload(); err != nil {
		t.Error(err)
	}
	if got := reloadsOf(t, s, auth...); got["failed"] != failed || got["ok"] == "0" || got["unchanged"] == "0" {
		t.Errorf("after good files: got %v, want failed %s, and some ok and unchanged", got, failed)
	}
}

// TestReloadTokens: a changed token file takes effect on all listeners without a restart, and an invalid one changes nothing.
func TestReloadTokens(t *testing.T) {
	const old, young, given = "old-token-of-24-characters", "new-token-of-24-characters", "given-token-of-26-character"
	file := filepath.Join(t.TempDir(), "tokens")
	write(t, file, "# ours\n"+old+"\n")
	s := start(t, roomy, func(o *service.Options) {
		o.Envoy, o.TokensFile, o.Tokens = []string{domainFile(t)}, file, []string{given}
	})
	valid := func(when string, want map[string]bool) {
		t.Helper()
		for token, good := range want {
			for listener, err := range s.sendToAll(t, nil, token) {
				if (err == nil) != good {
					t.Errorf("%s: %s on %s: got %v", when, token, listener, err)
				}
			}
			if err := s.callHTTP("admin", nil, "/metrics", token); (err == nil) != good {
				t.Errorf("%s: %s on admin: got %v", when, token, err)
			}
		}
	}
	stays := authenticated(t, s, old)
	valid("at first", map[string]bool{old: true, young: false, given: true})
	for _, wrong := range []string{"", "# nothing\n", "short\n", old + "\nshort\n"} {
		write(t, file, wrong)
		if err := s.Reload(); err == nil || strings.Contains(err.Error(), old) {
			t.Errorf("%q: got error %v", wrong, err)
		}
		valid("after an invalid file", map[string]bool{old: true, given: true})
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil {
		t.Error("a missing file was accepted")
	}
	valid("after a missing file", map[string]bool{old: true, young: false, given: true})

	write(t, file, old+"\n"+young+"\n") // both, while clients switch
	testkit.Eventually(t, "the file is noticed", func() bool { return s.Log.Has("tokens reloaded") })
	valid("both", map[string]bool{old: true, young: true, given: true})
	if _, err := io.WriteString(stays, testkit.Commands("PING")); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(stays).ReadString('\n'); line != "+PONG\r\n" {
		t.Errorf("a client with a token that is still valid: got %q, %v", line, err)
	}
	write(t, file, young+"\n")
	write(t, s.Path(), "policies: {}\n") // a mistake in another file does not keep a token valid
	if err := s.Reload(); err == nil {
		t.Error("an invalid policy file was accepted")
	}
	valid("the old token was removed", map[string]bool{old: false, young: true, given: true})
	if _, err := bufio.NewReader(stays).ReadString('\n'); err == nil {
		t.Error("a client that authenticated with the old token is still connected")
	}
	for _, token := range []string{old, young, given} {
		if s.Log.Has(token) {
			t.Errorf("the log contains the token %s", token)
		}
	}
}

// authenticated returns an authenticated connection to the RESP listener.
func authenticated(t *testing.T, s *started, token string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address("resp"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, testkit.Commands("AUTH "+token)); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != "+OK\r\n" {
		t.Fatalf("AUTH: got %q, %v", got, err)
	}
	return conn
}

// TestReloadCertificates: a changed certificate, and a changed client CA, take effect for the next connection on all listeners; a
// certificate that does not match its key changes nothing.
func TestReloadCertificates(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	files := a.server()
	s := start(t, roomy, func(o *service.Options) {
		o.TLS, o.Envoy = files, []string{domainFile(t)}
		o.TLS.ClientCA = a.path("ca.pem")
	})
	answered := func(when string, trusts *authority, by *authority, want bool) {
		t.Helper()
		for listener, err := range s.sendToAll(t, trusts.client("ann", by), "") {
			if (err == nil) != want {
				t.Errorf("%s: %s: got %v", when, listener, err)
			}
		}
	}
	answered("at first", a, a, true)
	copyFile(t, other.server().Cert, files.Cert) // without its key
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), files.Cert) {
		t.Errorf("a certificate without its key: got %v", err)
	}
	answered("after a mismatched pair", a, a, true)
	copyFile(t, other.path("server.key"), files.Key)
	testkit.Eventually(t, "the pair is noticed", func() bool { return s.Log.Has("certificates reloaded") })
	answered("the new certificate", other, a, true)
	answered("for a client that trusts the old authority", a, a, false)
	copyFile(t, other.path("ca.pem"), a.path("ca.pem"))
	if err := s.Reload(); err != nil {
		t.Error(err)
	}
	answered("a client of the old authority", other, a, false)
	answered("a client of the new authority", other, other, true)
}

// TestProxyCertificates: the proxy listener uses new certificates without a restart; invalid ones change nothing.
func TestProxyCertificates(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	files := a.server()
	s := start(t, roomy, func(o *service.Options) {
		withApplication(t, nil)(o)
		o.TLS = files
	})
	trusted := func(by *authority) bool {
		client := by.client("", nil)
		client.NextProtos = []string{"h2"}
		conn, err := tls.Dial("tcp", s.Address("proxy"), client)
		if err != nil {
			return false
		}
		defer conn.Close()
		return conn.ConnectionState().NegotiatedProtocol == "h2"
	}
	if !trusted(a) || trusted(other) {
		t.Fatal("the first certificate is not in use")
	}
	copyFile(t, other.server().Cert, files.Cert) // without its key
	testkit.Eventually(t, "the mismatched pair is logged", func() bool { return trusted(a) && s.Log.Has("certificates not reloaded") })
	copyFile(t, other.path("server.key"), files.Key)
	testkit.Eventually(t, "the new certificate is in use", func() bool { return trusted(other) })
	if trusted(a) || !s.Log.Has("certificates reloaded") {
		t.Errorf("the old certificate is in use, or nothing was logged:\n%s", s.Log)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(text))
}
