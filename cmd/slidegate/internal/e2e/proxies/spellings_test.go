package proxies_test

import (
	"fmt"
	"testing"
)

// spellings are targets that servers in some language take for /login.
var spellings = []string{
	"/login", "/login?", "/login?x=1", "/login?x=/other", "/login?#x",
	"/login#", "/login#x", "/login#/other", "/login#?x", "/login#x?y", "//login#x", "/%6cogin#x", "/x/../login#x", "/login##", "/login#%00",
	"//login", "///login", "////login", "/./login", "/././login", "/x/../login", "/a/b/../../login", "/x/./../login", "//x/../login", "/x//../login",
	"/login/../login", "/../login", "/../../login", "/./../login",
	"/%6cogin", "/%6Cogin", "/l%6fgin", "/%6c%6f%67%69%6e", "/%6cogin?x", "//%6cogin",
	"/%2e/login", "/%2E/login", "/x/%2e%2e/login", "/x/%2E./login", "/x/.%2e/login", "/%2e%2e/login",
	"/%2flogin", "/%2Flogin", "/%2f%2flogin", "/x%2f..%2flogin", "/x%2F..%2Flogin", "/x%2f%2e%2e%2flogin", "/..%2flogin", "/.%2flogin", "/x%2f../login",
	`/\login`, `\login`, `/x\..\login`, `/.\login`, `/x/..\login`, `/\\login`, `/x\../login`, `/x%2f..\login`, `/x\%2e%2e\login`, `/\login?x`, `/\login#x`,
}

// TestSpellingsOfAPath checks that however a client spells /login, the application gets no more logins than the limit admits:
// behind nginx, behind Caddy and behind slidegate proxy.
func TestSpellingsOfAPath(t *testing.T) {
	for name, front := range map[string]func(t *testing.T, app *application) string{
		"nginx": func(t *testing.T, app *application) string {
			service, _ := serve(t)
			return nginx(t, service, app.address())
		},
		"caddy": func(t *testing.T, app *application) string {
			service, _ := serve(t)
			return caddy(t, "Caddyfile", service, app.address())
		},
		"proxy": func(t *testing.T, app *application) string {
			address, _ := startSlidegate(t, "proxy", "--to", app.URL, "--http", "127.0.0.1:0", "--admin", "off", "--route", "POST /login=3/1h fixed-window anchor=first")
			return address
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := startApplication(t)
			address := front(t, app)
			for i := range 4 {
				if got, want := send(t, address, "POST /login", ""), []int{200, 200, 200, 429}[i]; got != want {
					t.Fatalf("login %d: status %d, want %d", i+1, got, want)
				}
			}
			targets := spellings
			for _, form := range []string{"http://%s/login", "HTTP://%s/login", "http://%s//login", "http://%s/login#x", "http://%s/x/../login"} {
				targets = append(targets, fmt.Sprintf(form, address))
			}
			for _, target := range targets {
				before, _ := app.reached()
				status := send(t, address, "POST "+target, "")
				after, logins := app.reached()
				if len(logins) > 3 {
					t.Errorf("POST %s: status %d, and the application took %q for a login", target, status, logins[len(logins)-1])
					app.dropExtraLogins()
				}
				if (status == 200) != (after > before) {
					t.Errorf("POST %s: status %d, and %d requests reached the application", target, status, after-before)
				}
			}
			if got := send(t, address, "POST /other", ""); got != 200 {
				t.Errorf("POST /other: status %d, want 200: it has no limit", got)
			}
			if got := send(t, address, "GET /login", ""); got != 200 {
				t.Errorf("GET /login: status %d, want 200: it has no limit", got)
			}
		})
	}
}

// dropExtraLogins removes the logins beyond the third, so that the next one is noticed.
func (a *application) dropExtraLogins() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logins = a.logins[:3]
}

// TestFragmentsBehindNginx checks that of fifty logins with fifty fragments, three are admitted.
func TestFragmentsBehindNginx(t *testing.T) {
	app := startApplication(t)
	service, _ := serve(t)
	address := nginx(t, service, app.address())
	admitted := 0
	for i := range 50 {
		switch got := send(t, address, fmt.Sprintf("POST /login#%d", i), ""); got {
		case 200:
			admitted++
		case 429:
		default:
			t.Fatalf("request %d: status %d, want 200 or 429", i, got)
		}
	}
	if count, _ := app.reached(); admitted != 3 || count != 3 {
		t.Errorf("%d were admitted and %d reached the application, want 3", admitted, count)
	}
}
