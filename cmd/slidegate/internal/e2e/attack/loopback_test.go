package attack_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

const loginOnly = "policies:\n  login: {match: POST /login, key: \"{address}\", limits: [3/1h fixed-window anchor=first]}\n"

// TestStrangersCannotCharge puts a service with tokens behind a proxy on the same machine that publishes its JSON API. Through that
// proxy strangers can neither send requests in the name of a client, which is still admitted through the site's own proxy, nor
// learn the names of policies.
func TestStrangersCannotCharge(t *testing.T) {
	const victim = "127.0.0.9"
	for name, run := range map[string]func(t *testing.T, service, app, public, site string){
		"nginx": func(t *testing.T, service, app, public, site string) {
			servers := testkit.Example(t, "nginx/slidegate.conf", "listen 80;", "listen 127.0.0.1:"+site+";", "server 127.0.0.1:8080", "server "+service,
				"http://127.0.0.1:3000", "http://"+app, "proxy_set_header Host $host;", "proxy_set_header Host $host; proxy_set_header X-Slidegate-Token "+token+";")
			runNginx(t, servers+fmt.Sprintf("server { listen 127.0.0.1:%s; location / { proxy_pass http://%s; } }\n", public, service), public, site)
		},
		"caddy": func(t *testing.T, service, app, public, site string) {
			sites := testkit.Example(t, "caddy/Caddyfile", ":80 {", "http://127.0.0.1:"+site+" {", "reverse_proxy 127.0.0.1:8080 {",
				"reverse_proxy "+service+" {\n\t\t\theader_up X-Slidegate-Token "+token, "reverse_proxy 127.0.0.1:3000", "reverse_proxy "+app)
			runCaddy(t, sites+"\nhttp://127.0.0.1:"+public+" {\n\treverse_proxy "+service+"\n}\n", public, site)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := servicetest.Start(t, loginOnly, func(o *service.Options) { o.Tokens = []string{token} })
			app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Slidegate-Token") != "" {
					t.Error("the application received the token")
				}
				fmt.Fprint(w, "hello")
			}))
			t.Cleanup(app.Close)
			public, site := freePort(t), freePort(t)
			run(t, s.Address("http"), strings.TrimPrefix(app.URL, "http://"), public, site)

			for _, mode := range []string{"", "?mode=nginx", "?policy=login", "?token=", "?policy=login&token=guess"} {
				got := send(t, "127.0.0.1", public, "POST", "/v1/check"+mode, "", "X-Forwarded-Method: POST", "X-Forwarded-Uri: /login",
					"X-Original-Method: POST", "X-Original-URI: /login", "X-Forwarded-For: "+victim, "X-Slidegate-Token: guess")
				if got.status != 403 || got.header.Get("RateLimit") != "" {
					t.Errorf("/v1/check%s in the name of the victim: got %d %s, want 403", mode, got.status, got.body)
				}
			}
			if got := send(t, "127.0.0.1", public, "GET", "/v1/check?policy=zzz", "", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /"); strings.Contains(got.body, "login") {
				t.Errorf("the response to a stranger names the policies: %s", got.body)
			}
			if got := send(t, "127.0.0.1", public, "POST", "/v1/allow", `{"key":"`+victim+`"}`, "Content-Type: application/json"); got.status != 401 {
				t.Errorf("/v1/allow without a token: got %d, want 401", got.status)
			}
			for i, want := range []int{200, 200, 200, 429} {
				if got := send(t, victim, site, "POST", "/login", ""); got.status != want {
					t.Errorf("the victim's login %d: got %d %s, want %d", i+1, got.status, got.body, want)
				}
			}
		})
	}
}
