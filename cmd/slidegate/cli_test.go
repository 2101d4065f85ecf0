package main

import (
	"net"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// The help of a command that runs a server explains about ten flags, on a screen, and names all others.
func TestHelpExplainsFirstFlags(t *testing.T) {
	t.Setenv("SLIDEGATE_TO", "http://localhost:3000") // required by proxy
	for _, command := range environmentCommands {
		help, all := mustCall(t, command, "--help"), mustCall(t, "help", command, "all")
		explained, named, found := strings.Cut(help, "\nMore flags; \"slidegate help "+command+" all\"")
		if n := strings.Count(explained, "\n      --"); !found || n < 10 || n > 13 || strings.Contains(help, "SLIDEGATE_HTTP") {
			t.Errorf("%s: got %d flags explained, want about ten, without variables:\n%s", command, n, help)
		}
		for line := range strings.Lines(help) {
			if len(line) > 81 {
				t.Errorf("%s: got a line of %d bytes: %s", command, len(line), line)
			}
		}
		_, node := parseArgs(t, command)
		for _, flag := range node.Flags {
			name := regexp.MustCompile(" --" + flag.Name + `[=\s]`)
			if name.MatchString(explained) == name.MatchString(named) || !name.MatchString(all) {
				t.Errorf("%s: --%s is not in the help, or twice", command, flag.Name)
			}
		}
	}
}

// Version and help are available as flags and as commands.
func TestVersionAndHelp(t *testing.T) {
	version := regexp.MustCompile(`^slidegate \S+ \((commit \S+.*, )?` + regexp.QuoteMeta(runtime.Version()) + `, ` + runtime.GOOS + `/` + runtime.GOARCH + `\)\n$`)
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if got := mustCall(t, args...); !version.MatchString(got) {
			t.Errorf("%v: got %q, want a match of %s", args, got, version)
		}
	}
	for _, pair := range [][2][]string{
		{{"help"}, {"--help"}}, {{"help", "serve"}, {"serve", "--help"}}, {{"help", "config", "check"}, {"config", "check", "--help"}},
	} {
		if got, want := mustCall(t, pair[0]...), mustCall(t, pair[1]...); got != want || !strings.HasPrefix(got, "Usage: slidegate") {
			t.Errorf("%v: got\n%swant\n%s", pair[0], got, want)
		}
	}
	if r := call(t, "help", "nosuch"); r.status != exitFailure || !strings.Contains(r.err, "nosuch") {
		t.Errorf("help for an unknown command: got status %d, %s", r.status, r.err)
	}
	for want, settings := range map[string][]debug.BuildSetting{
		"unknown":           nil,
		"0a1b":              {{Key: "vcs.revision", Value: "0a1b"}, {Key: "vcs.modified", Value: "false"}},
		"0a1b with changes": {{Key: "vcs.revision", Value: "0a1b"}, {Key: "vcs.modified", Value: "true"}},
	} {
		if got := commitOf(&debug.BuildInfo{Settings: settings}); got != want {
			t.Errorf("%v: got %q, want %q", settings, got, want)
		}
	}
}

// Every flag for an address rejects an invalid one with the fix.
func TestInvalidAddressNamesTheFix(t *testing.T) {
	for _, listener := range []string{"http", "grpc", "resp", "admin"} {
		r := call(t, "serve", "--"+listener, "18080")
		if want := "--" + listener + `: "18080" is a port without a host; write 127.0.0.1:18080`; r.status != exitFailure || !strings.Contains(r.err, want) {
			t.Errorf("serve --%s 18080: got status %d, %s, want %s", listener, r.status, r.err, want)
		}
	}
	for address, want := range map[string]string{"18080": ":18080 for all its addresses", "unix:/x": "host:port"} {
		if r := call(t, "proxy", "--to", "http://localhost:1", "--admin", "off", "--http", address); r.status != exitFailure || !strings.Contains(r.err, want) {
			t.Errorf("proxy --http %s: got status %d, %s, want %s", address, r.status, r.err, want)
		}
	}
}

// All listeners can be Unix sockets, and the commands can connect to them.
func TestUnixSockets(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	dir := t.TempDir()
	at := func(name string) string { return "unix:" + filepath.Join(dir, name) }
	s := launch(t, nil, "serve", "--limit", "1/1h sliding-log", "--http", at("http"), "--grpc", at("grpc"), "--resp", at("resp"), "--admin", at("admin"))
	if !s.await("admin     unix:", "--unix-socket "+filepath.Join(dir, "http")) {
		t.Fatalf("the service did not start:\n%s", s.text())
	}
	commandLines{
		{[]string{"allow", "me"}, exitOK, "allowed: 0 of 1 left"},
		{[]string{"allow", "me"}, exitRefused, "refused"},
	}.play(t, "--server", at("http"))
	commandLines{
		{[]string{"explain", "me"}, exitOK, "decision   refused, by its limits"},
		{[]string{"reset", "me"}, exitOK, "reset"},
	}.play(t, "--server", at("admin"))
	commandLines{{[]string{"allow", "me"}, exitOK, "allowed"}}.play(t, "--server", at("http"))
	resp, err := net.Dial("unix", filepath.Join(dir, "resp"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	var answer [7]byte
	if _, err := resp.Write([]byte(testkit.Commands("PING"))); err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Read(answer[:]); err != nil || string(answer[:]) != "+PONG\r\n" {
		t.Errorf("PING: got %q, %v, want +PONG", answer, err)
	}
	commandLines{{[]string{"allow", "me"}, exitFailure, "is the service running?"}}.play(t, "--server", at("gone"))
}

// identity is a certificate with its key, in files.
type identity struct {
	*testkit.Certificate
	cert, key string
}

// issue creates a certificate for this machine, signed by by, or self-signed if by is nil.
func issue(t *testing.T, name string, by *testkit.Certificate) identity {
	t.Helper()
	c := testkit.NewCertificate(t, name, by, "127.0.0.1")
	return identity{c, write(t, name+".pem", c.Cert), write(t, name+".key", c.Key)}
}

// The commands can connect to a service over TLS, with a client certificate if it requires one, and errors name the fix.
func TestClientTLS(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	authority, stranger := issue(t, "authority", nil), issue(t, "stranger", nil)
	server, me := issue(t, "server", authority.Certificate), issue(t, "me", authority.Certificate)
	secure := []string{"--tls-cert", server.cert, "--tls-key", server.key}
	s := startSecure(t, secure...)
	web := "https://" + s.addresses["http"]
	commandLines{
		{[]string{"allow", "me", "--tls-ca", authority.cert}, exitOK, "allowed"},
		{[]string{"allow", "me", "--insecure"}, exitOK, "allowed"},
		{[]string{"allow", "me"}, exitFailure, "--tls-ca FILE"},
		{[]string{"allow", "me", "--tls-ca", stranger.cert}, exitFailure, "--tls-ca FILE"},
		{[]string{"allow", "me", "--tls-ca", me.key}, exitFailure, "no PEM certificates"},
		{[]string{"allow", "me", "--tls-cert", me.cert}, exitFailure, "--tls-key"},
		{[]string{"allow", "me", "--tls-key", me.key}, exitFailure, "--tls-cert"},
		{[]string{"allow", "me", "--tls-ca", authority.cert, "--insecure"}, exitFailure, "leave one out"},
	}.play(t, "--server", web)
	commandLines{
		{[]string{"allow", "me", "--server", "http://" + s.addresses["http"]}, exitFailure, "requires TLS; use https://"},
		{[]string{"allow", "me", "--tls-ca", authority.cert, "--server", "https://localhost:" + portOf(s.addresses["http"])}, exitFailure, "a host name that is in its certificate"},
		{[]string{"allow", "me", "--insecure", "--server", "https://" + s.addresses["admin"]}, exitFailure, "the server does not use TLS; use http://"},
		{[]string{"allow", "me", "--insecure", "--server", "http://127.0.0.1:1"}, exitFailure, "write https://"},
		{[]string{"allow", "me", "--server", "http://127.0.0.1:1"}, exitFailure, "is the service running?"},
	}.play(t)
	if r := call(t, "allow", "me", "--server", web); strings.Contains(r.err, "is the service running?") {
		t.Errorf("untrusted certificate: got %s, want no hint that the service may not be running", r.err)
	}
	t.Run("client certificates", func(t *testing.T) {
		s := startSecure(t, append(secure, "--tls-client-ca", authority.cert)...)
		commandLines{
			{[]string{"allow", "me", "--tls-cert", me.cert, "--tls-key", me.key}, exitOK, "allowed"},
			{[]string{"allow", "me"}, exitFailure, "add --tls-cert FILE and --tls-key FILE"},
			{[]string{"allow", "me", "--tls-cert", stranger.cert, "--tls-key", stranger.key}, exitFailure, "add --tls-cert FILE and --tls-key FILE"},
		}.play(t, "--tls-ca", authority.cert, "--server", "https://"+s.addresses["http"])
	})
}

// startSecure is like startServe, but with TLS, where the service does not print how to try it.
func startSecure(t *testing.T, args ...string) *runningService {
	t.Helper()
	free := []string{"serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "127.0.0.1:0"}
	s := launch(t, nil, append(free, args...)...)
	if !s.await("  admin  ") {
		t.Fatalf("the service did not start:\n%s", s.text())
	}
	for _, found := range regexp.MustCompile(`(?m)^  (http|admin) +https?://(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(s.text(), -1) {
		s.addresses[found[1]] = found[2]
	}
	return s
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
