package attack_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// allAttacks runs the whole table: every spelling on every server behind every guard. Otherwise each server gets a few.
var allAttacks = flag.Bool("attacks", false, "send every spelling to every server, behind every proxy")

// attacks are requests that some server takes for POST /login with the key "real", and the servers that do when nothing is in front
// of them. Add a line for a new spelling.
var attacks = []struct {
	method, target, header string
	readers                string
	short                  bool // is part of the short run
}{
	{"POST", "/login", "", "express koa url php flask django", false},
	{"POST", "//a@b/login?#x", "", "express koa url php", true},
	{"POST", "//a@b/login#x", "", "express koa url php", false},
	{"POST", "//a@b/login", "", "url php", false},
	{"POST", "//x/login", "", "url php", true},
	{"POST", "//x:80/login", "", "url php", false},
	{"POST", "///x/login", "", "url", false},
	{"POST", "////x/login", "", "url", false},
	{"POST", "//x/./login", "", "url", false},
	{"POST", `/\x/login`, "", "url", false},
	{"POST", `/\a@b/login#x`, "", "express koa url", false},
	{"POST", `\\a@b/login`, "", "", false},
	{"POST", "/login#x", "", "express koa url php flask", false},
	{"POST", "/login?#x", "", "express koa url php flask django", false},
	{"POST", "/login\xa0", "", "flask django", true},
	{"POST", "/login\x85", "", "flask django", false},
	{"POST", "/x/../login", "", "url", false},
	{"POST", `/x\..\login`, "", "url", false},
	{"POST", "/x/%2e%2e/login", "", "url", false},
	{"POST", "/%6cogin", "", "flask django", false},
	{"POST", "http://x/login", "", "express koa url php flask", false},
	{"post", "/login", "", "flask django", true},
	{"Post", "/login", "", "flask django", false},
	{"POST", "/login", "X_Api_Key: real", "", true},
	{"POST", "/login", "X.Api.Key: real", "", false},
	{"POST", "/login", "X-Api_Key: real", "", false},
}

// webServers are the programs of the servers, what must be installed for each, and by which name make test installs it.
var webServers = map[string]struct{ program, script, argument, installed, name string }{
	"express": {"node", "server.js", "express", servers + "/node_modules/express", "node"},
	"koa":     {"node", "server.js", "koa", servers + "/node_modules/koa", "node"},
	"url":     {"node", "server.js", "url", servers, "node"},
	"php":     {"php", "server.php", "", servers, "php"},
	"flask":   {"/usr/bin/python3", "flask_server.py", "", "/usr/lib/python3/dist-packages/flask", "flask"}, // not another Python of the machine
	"django":  {"/usr/bin/python3", "django_server.py", "", "/usr/lib/python3/dist-packages/django", "django"},
}

const servers = "testdata/servers"

// startServer starts a server and returns its port. It skips the test if the server is not installed, unless TEST_REQUIRE names it.
func startServer(t *testing.T, name string) (port string) {
	t.Helper()
	of := webServers[name]
	path, err := exec.LookPath(of.program)
	if _, missing := os.Stat(of.installed); err != nil || missing != nil {
		testkit.Missing(t, of.name, name+" is missing; make test installs it")
	}
	port = freePort(t)
	args := []string{filepath.Join(servers, of.script)}
	switch {
	case name == "php":
		args = []string{"-S", "127.0.0.1:" + port, args[0]}
	case of.argument != "":
		args = append(args, of.argument, port)
	default:
		args = append(args, port)
	}
	run(t, exec.Command(path, args...), port)
	return port
}

// byAddress and byKey limit logins to one per hour.
const (
	byAddress = "policies:\n  login: {match: POST /login, limits: [1/1h]}\n"
	byKey     = "policies:\n  login: {match: POST /login, key: \"header:X-Api-Key\", limits: [1/1h]}\n"
)

// loginGuards holds the ways to put limits in front of an application.
var loginGuards = map[string]func(t *testing.T, policies, application string) (port string){
	"proxy": runProxy,
	"proxy that allows ambiguous requests": func(t *testing.T, policies, application string) string {
		return portOf(servicetest.Start(t, policies, func(o *service.Options) {
			o.Proxy, o.Application.To, o.Application.AllowAmbiguous = "127.0.0.1:0", &url.URL{Scheme: "http", Host: application}, true
		}).Address("proxy"))
	},
	"nginx": func(t *testing.T, policies, application string) string {
		port, service := freePort(t), servicetest.Start(t, policies, nil).Address("http")
		runNginx(t, testkit.Example(t, "nginx/slidegate.conf", "listen 80;", "listen 127.0.0.1:"+port+";", "server 127.0.0.1:8080", "server "+service,
			"http://127.0.0.1:3000", "http://"+application), port)
		return port
	},
	"caddy": func(t *testing.T, policies, application string) string {
		port, service := freePort(t), servicetest.Start(t, policies, nil).Address("http")
		runCaddy(t, testkit.Example(t, "caddy/Caddyfile", ":80 {", "http://127.0.0.1:"+port+" {", "reverse_proxy 127.0.0.1:8080", "reverse_proxy "+service,
			"reverse_proxy 127.0.0.1:3000", "reverse_proxy "+application), port)
		return port
	},
}

// TestServersReadNoWayAroundLimits sends each attack to each server, first directly, to see how it reads it, and then through each
// guard after the quota is used up: the guard rejects or limits it, or the server does not read it as a login.
func TestServersReadNoWayAroundLimits(t *testing.T) {
	for name := range webServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := startServer(t, name)
			for _, attack := range attacks {
				if !*allAttacks && !attack.short {
					continue
				}
				got := strings.HasPrefix(sendAttack(t, "127.0.0.1", port, attack.method, attack.target, attack.header).body, "LOGIN")
				if want := slices.Contains(strings.Fields(attack.readers), name); got != want && attack.header == "" {
					t.Errorf("%s %q: a login: got %t, want %t; if the server has changed, change the table", attack.method, attack.target, got, want)
				}
			}
			for guard, open := range loginGuards {
				if *allAttacks || guard == "proxy" {
					t.Run(guard, func(t *testing.T) { attackGuard(t, open, "127.0.0.1:"+port) })
				}
			}
		})
	}
}

// attackGuard sends the attacks through a guard, each from an address or with a key whose quota is used up.
func attackGuard(t *testing.T, open func(t *testing.T, policies, application string) string, application string) {
	guarded, keyed := open(t, byAddress, application), open(t, byKey, application)
	if got := send(t, "127.9.9.9", keyed, "POST", "/login", "", "X-Api-Key: real"); got.body != "LOGIN key=real" {
		t.Fatalf("the first login with the key: got %d %s", got.status, got.body)
	}
	for i, attack := range attacks {
		if !*allAttacks && !attack.short {
			continue
		}
		from, port := fmt.Sprintf("127.1.1.%d", i+1), guarded
		if attack.header != "" {
			port = keyed
		} else if got := send(t, from, port, "POST", "/login", ""); got.body != "LOGIN key=" {
			t.Fatalf("the first login from %s: got %d %s", from, got.status, got.body)
		}
		lines := []string{attack.header}
		if attack.header != "" {
			lines = append(lines, "X-Api-Key: random\r\n"+attack.header)
		}
		for _, header := range lines {
			got := sendAttack(t, from, port, attack.method, attack.target, header)
			if strings.Contains(got.body, "LOGIN key=real") || attack.header == "" && strings.HasPrefix(got.body, "LOGIN") {
				t.Errorf("%s %q %q: got %d %s, want it limited or rejected", attack.method, attack.target, header, got.status, got.body)
			}
			if got.status == 500 || got.status == 502 || got.status == 504 {
				t.Logf("%s %q %q: got %d", attack.method, attack.target, header, got.status)
			}
		}
	}
}

// sendAttack sends a request exactly as it is written.
func sendAttack(t *testing.T, from, port, method, target, header string) reply {
	t.Helper()
	text := method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nConnection: close\r\n"
	if header != "" {
		text += header + "\r\n"
	}
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}).Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text+"Content-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: "POST"})
	if err != nil {
		return reply{} // some servers only disconnect
	}
	defer got.Body.Close()
	body, _ := io.ReadAll(got.Body)
	return reply{got.StatusCode, got.Header, string(body)}
}
