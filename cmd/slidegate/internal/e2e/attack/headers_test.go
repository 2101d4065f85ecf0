package attack_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// hostileHeaders lists headers with which a client may try to pass for another client, or to request another path, at the proxy or the
// service.
var hostileHeaders = []string{
	"X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 6.6.6.6, 7.7.7.7", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-For: ::1", "X-Forwarded-For:", "X-Forwarded-For: ,",
	"X_Forwarded_For: 6.6.6.6", "X-Real-IP: 6.6.6.6", "Forwarded: for=6.6.6.6", "True-Client-IP: 6.6.6.6", "CF-Connecting-IP: 6.6.6.6", "Client-IP: 6.6.6.6",
	"X-Original-Method: GET", "X-Original-URI: /free", "X-Original-URL: /free", "X-Rewrite-URL: /free", "X_Original_URI: /free", "X-Forwarded-Method: GET",
	"X-Forwarded-Uri: /free", "X-Forwarded-Host: free.example", "X-Forwarded-Proto: https", "X-Slidegate-Status: 200", "X-Slidegate-Mode: forwarded",
	"X-Slidegate-Token: guess", "Authorization: Bearer guess", "Connection: X-Forwarded-For", "Connection: close, X-Forwarded-For", "Connection: X-Original-URI, X-Original-Method",
	"Connection: X-Forwarded-Uri, X-Forwarded-Method", "Connection: X-Slidegate-Token", "Connection: Host", "Connection: Authorization", "Connection: keep-alive, X-Real-IP",
	"Proxy-Connection: X-Forwarded-For", "Keep-Alive: timeout=1", "TE: trailers", "Trailer: X-Forwarded-For", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
	"Upgrade: websocket", "Cookie: a=" + strings.Repeat("x", 4000), "Range: bytes=0-0", "If-None-Match: *", "X-HTTP-Method-Override: GET", "Cache-Control: only-if-cached",
	"Accept-Encoding: gzip", "Content-Type: multipart/form-data; boundary=x", "Referer: http://free.example/free", "Via: 1.1 x",
}

// guardedApplication is an application behind a proxy that limits its logins.
type guardedApplication struct {
	port   string
	logins atomic.Int64 // number that reached the application
}

// application starts the application, and returns its address.
func (g *guardedApplication) application(t *testing.T) string {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/login" {
			g.logins.Add(1)
		}
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(app.Close)
	return strings.TrimPrefix(app.URL, "http://")
}

// guards holds the ways to limit logins to three an hour per address.
var guards = map[string]func(t *testing.T) *guardedApplication{
	"nginx": func(t *testing.T) *guardedApplication {
		g := &guardedApplication{port: freePort(t)}
		service := servicetest.Start(t, loginOnly, nil).Address("http")
		runNginx(t, testkit.Example(t, "nginx/slidegate.conf", "listen 80;", "listen 127.0.0.1:"+g.port+";", "server 127.0.0.1:8080", "server "+service,
			"http://127.0.0.1:3000", "http://"+g.application(t)), g.port)
		return g
	},
	"caddy": func(t *testing.T) *guardedApplication {
		g := &guardedApplication{port: freePort(t)}
		service := servicetest.Start(t, loginOnly, nil).Address("http")
		runCaddy(t, testkit.Example(t, "caddy/Caddyfile", ":80 {", "http://127.0.0.1:"+g.port+" {", "reverse_proxy 127.0.0.1:8080", "reverse_proxy "+service,
			"reverse_proxy 127.0.0.1:3000", "reverse_proxy "+g.application(t)), g.port)
		return g
	},
	"proxy": func(t *testing.T) *guardedApplication {
		g := &guardedApplication{}
		g.port = runProxy(t, loginOnly, g.application(t))
		return g
	},
}

// runProxy runs slidegate's own proxy in front of an application, and returns its port.
func runProxy(t *testing.T, policies, app string) string {
	t.Helper()
	return portOf(servicetest.Start(t, policies, func(o *service.Options) {
		o.Proxy, o.Application.To = "127.0.0.1:0", &url.URL{Scheme: "http", Host: app}
	}).Address("proxy"))
}

// TestHostileHeadersDoNotBypassLimits checks that no login beyond the limit reaches the application, whatever headers a client
// sends, one or several together.
func TestHostileHeadersDoNotBypassLimits(t *testing.T) {
	for name, start := range guards {
		t.Run(name, func(t *testing.T) {
			g := start(t)
			for i, want := range []int{200, 200, 200, 429} {
				if got := send(t, "127.0.0.1", g.port, "POST", "/login", ""); got.status != want {
					t.Fatalf("login %d: got %d %s, want %d", i+1, got.status, got.body, want)
				}
			}
			const seed = 20261115
			random := rand.New(rand.NewPCG(seed, seed))
			for i := range 150 {
				lines := []string{hostileHeaders[i%len(hostileHeaders)]}
				for range i / len(hostileHeaders) { // first each alone, then with others
					lines = append(lines, hostileHeaders[random.IntN(len(hostileHeaders))])
				}
				got := send(t, "127.0.0.1", g.port, "POST", "/login", "", lines...)
				if n := g.logins.Load(); n != 3 {
					t.Fatalf("%q: got %d, and %d logins reached the application, want 3", lines, got.status, n)
				}
				if got.status == 502 || got.status == 504 {
					t.Errorf("%q: got %d, so a client can make the service look dead", lines, got.status)
				}
			}
			if got := send(t, "127.0.0.3", g.port, "POST", "/login", ""); got.status != 200 {
				t.Errorf("another client: got %d %s, want 200", got.status, got.body)
			}
		})
	}
}
