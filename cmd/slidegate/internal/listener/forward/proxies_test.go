package forward

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

func behindNginx(t *testing.T) *site {
	need(t, "nginx")
	return startBehind(t, func(port, service, app string) *exec.Cmd {
		return testkit.Nginx(t, testkit.Example(t, "nginx/slidegate.conf",
			"listen 80;", "listen 127.0.0.1:"+port+";", "127.0.0.1:8080", service, "127.0.0.1:3000", app))
	})
}

func behindCaddy(t *testing.T) *site {
	need(t, "caddy")
	return startBehind(t, func(port, service, app string) *exec.Cmd {
		return testkit.Caddy(t, testkit.Example(t, "caddy/Caddyfile",
			":80 {", "http://127.0.0.1:"+port+" {", "127.0.0.1:8080", service, "127.0.0.1:3000", app))
	})
}

// checkLimits checks the policies through a proxy: 3 per minute for each address, and 1 login per hour.
func (s *site) checkLimits() {
	t := s.t
	const (
		here, there, blocked = "127.0.0.1", "127.0.0.2", "127.0.0.66"
		policy               = ` RateLimit-Policy: "site";q=3;w=60`
	)
	lies := []string{"X-Forwarded-For: 6.6.6.6", "X-Real-IP: 6.6.6.6", "Forwarded: for=6.6.6.6", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /free",
		"X-Forwarded-Host: free.example", "X-Original-Method: GET", "X-Original-URI: /free", "X-Slidegate-Status: 200", "X-Slidegate-Mode: nginx"}
	for _, left := range []string{"2;t=60", "1;t=60", "0;t=60"} {
		expect(t, s.get(here, "GET", "/page?a=b"), `200 RateLimit: "site";r=`+left+policy)
	}
	refused := s.get(here, "GET", "/page")
	expect(t, refused, `429 Retry-After: 60 RateLimit: "site";r=0;t=60`+policy)
	if refused.Header.Get("Content-Type") != "application/problem+json" || refused.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v, want application/problem+json and no-store", refused.Header)
	}
	expect(t, s.get(here, "GET", "/page", lies...), `429 Retry-After: 60 RateLimit: "site";r=0;t=60`+policy)
	expect(t, s.get(there, "POST", "/login", lies...),
		`200 RateLimit: "site";r=2;t=60, "login";r=0;t=3600 RateLimit-Policy: "site";q=3;w=60, "login";q=1;w=3600`)
	expect(t, s.get(there, "POST", "/login", lies...),
		`429 Retry-After: 3600 RateLimit: "site";r=2;t=60, "login";r=0;t=3600 RateLimit-Policy: "site";q=3;w=60, "login";q=1;w=3600`)
	expect(t, s.get(there, "GET", "/own403"), `403 RateLimit: "site";r=1;t=60`+policy)                   // the application's own 403
	expect(t, s.get(there, "GET", "/?policy=login&mode=nginx"), `200 RateLimit: "site";r=0;t=60`+policy) // the client's own query
	expect(t, s.get(blocked, "GET", "/"), `403`)
	if n := s.reached.Load(); n != 6 {
		t.Errorf("got %d requests at the application", n)
	}
	s.add(time.Minute - time.Microsecond)
	expect(t, s.get(here, "GET", "/page"), `429 Retry-After: 1 RateLimit: "site";r=0;t=1`+policy)
	s.add(time.Microsecond)
	expect(t, s.get(here, "GET", "/page"), `200 RateLimit: "site";r=2;t=60`+policy)
	s.broken.Store(true)
	expect(t, s.get(here, "GET", "/page"), "503")
}

func TestBehindNginx(t *testing.T) {
	s := behindNginx(t)
	s.checkLimits()
	s.backend.Close() // Slidegate is down: the example admits requests
	expect(t, s.get("127.0.0.1", "GET", "/"), "200")
}

// nginx routes /login#1 as /login, but its $request_uri keeps the fragment, which must not be a way around the limit
// for logins.
func TestFragmentBehindNginx(t *testing.T) {
	s := behindNginx(t)
	admitted := 0
	for i := range 50 {
		switch got := s.raw("127.0.0.1", fmt.Sprintf("POST /login#%d", i)); got {
		case 200:
			admitted++
		case 429:
		default:
			t.Fatalf("request %d: got %d, want 200 or 429", i, got)
		}
	}
	if reached := s.reached.Load(); admitted != 1 || reached != 1 {
		t.Errorf("got %d admitted and %d at the application, want 1", admitted, reached)
	}
}

func TestBehindCaddy(t *testing.T) {
	s := behindCaddy(t)
	s.checkLimits()
	s.backend.Close()
	expect(t, s.get("127.0.0.1", "GET", "/"), "502")
}

// The example for Traefik is valid YAML, and has the right address.
func TestTraefikExample(t *testing.T) {
	text, err := os.ReadFile("../../../../../examples/traefik/dynamic.yml")
	must(t, err)
	var file struct {
		HTTP struct {
			Middlewares map[string]struct {
				ForwardAuth struct {
					Address            string `yaml:"address"`
					TrustForwardHeader *bool  `yaml:"trustForwardHeader"`
				} `yaml:"forwardAuth"`
			} `yaml:"middlewares"`
			Routers map[string]struct {
				Middlewares []string `yaml:"middlewares"`
			} `yaml:"routers"`
		} `yaml:"http"`
	}
	must(t, yaml.Unmarshal(text, &file))
	auth := file.HTTP.Middlewares["slidegate"].ForwardAuth
	if auth.Address != "http://127.0.0.1:8080"+Path || auth.TrustForwardHeader == nil || *auth.TrustForwardHeader {
		t.Errorf("got %+v, want the address http://127.0.0.1:8080%s and trustForwardHeader: false", auth, Path)
	}
	if used := file.HTTP.Routers["app"].Middlewares; len(used) != 1 || used[0] != "slidegate" {
		t.Errorf("got the router with %v", used)
	}
}
