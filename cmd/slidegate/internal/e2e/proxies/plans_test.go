package proxies_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// plansExample is the example with plans: the service, behind nginx, over a Redis that requires a user and a password.
type plansExample struct {
	address string // of nginx
	redis   *redistest.Node
}

func startPlansExample(t *testing.T) *plansExample {
	t.Helper()
	secrets := t.TempDir()
	for name, secret := range map[string]string{"redis_user": "app\n", "redis_password": "hunter2@home/#?\n"} {
		testkit.NoError(t, os.WriteFile(filepath.Join(secrets, name), []byte(secret), 0o600))
	}
	node := redistest.Server(t, "user app on >hunter2@home/#? ~* &* +@all")
	file := filepath.Join(t.TempDir(), "slidegate.yaml")
	text := testkit.Example(t, "plans/slidegate.yaml", "/run/secrets", secrets, "@redis:6379", "@"+node.Addr(), "store_timeout: 50ms", "store_timeout: 5s")
	testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	service, _ := startSlidegate(t, "serve", "--config", file, "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off")
	maps := testkit.Example(t, "plans/nginx.conf")
	const host = "        proxy_set_header Host $host;\n"
	address := nginx(t, service, startApplication(t).address(), "upstream slidegate {", maps+"\nupstream slidegate {",
		host, host+"        proxy_set_header X-Plan $plan;\n        proxy_set_header X-Cost $cost;\n")
	return &plansExample{address, node}
}

// client is a client that sends requests.
type client struct{ key, address, plan, cost string }

// send sends a request through nginx.
func (p *plansExample) send(t *testing.T, c client, method, target string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+p.address+target, nil)
	testkit.NoError(t, err)
	for name, value := range map[string]string{"X-Api-Key": c.key, "X-Forwarded-For": c.address, "X-Plan": c.plan, "X-Cost": c.cost} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(r)
	testkit.NoError(t, err)
	testkit.NoError(t, response.Body.Close())
	return response
}

// admitted sends n requests and returns how many are admitted; the others must be refused.
func (p *plansExample) admitted(t *testing.T, n int, c client, method, target string) (count int) {
	t.Helper()
	for range n {
		switch response := p.send(t, c, method, target); response.StatusCode {
		case http.StatusOK:
			count++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("%s %s of %+v: status %d", method, target, c, response.StatusCode)
		}
	}
	return count
}

// TestPlansExample checks that every line of the example has its effect through nginx.
func TestPlansExample(t *testing.T) {
	lines := strings.Count(testkit.Example(t, "plans/slidegate.yaml"), "\n")
	if lines > 45 {
		t.Errorf("the example has %d lines, want at most 45", lines)
	}
	p := startPlansExample(t)
	for _, test := range []struct {
		why            string
		n              int
		by             client
		method, target string
		want           int
	}{
		{"no plan", 3, client{key: "k-1"}, "GET", "/api/export", 2},
		{"a plan claimed by the client is ignored", 3, client{key: "k-2", plan: "internal"}, "GET", "/api/export", 2},
		{"pro", 22, client{key: "k-bolt"}, "GET", "/api/export", 20},
		{"team-*", 42, client{key: "k-crew"}, "GET", "/api/export", 40},
		{"internal", 60, client{key: "k-cron"}, "GET", "/api/export", 60},
		{"an override takes precedence over the plan", 8, client{key: "k-acme"}, "GET", "/api/export", 6},

		{"one budget: 50 of an export", 1, client{key: "k-3"}, "GET", "/api/export", 1},
		{"and 40 of searches", 4, client{key: "k-3"}, "POST", "/api/search", 4},
		{"and 9 of others", 9, client{key: "k-3"}, "GET", "/api/search", 9},
		{"leave nothing for a search", 1, client{key: "k-3"}, "POST", "/api/search", 0},
		{"but leave one for an item", 2, client{key: "k-3"}, "GET", "/api/items", 1},
		{"and the status is free", 3, client{key: "k-3"}, "GET", "/api/status", 3},
		{"another spelling is not cheaper", 3, client{key: "k-4"}, "GET", "/api/x%2f..%2fexport", 2},

		{"the cost is set by nginx", 4, client{key: "k-5"}, "GET", "/api/report?pages=30", 3},
		{"and not by the client", 4, client{key: "k-6", cost: "1"}, "GET", "/api/report?pages=30", 3},
		{"a cost of 0 counts as 1", 101, client{key: "k-7"}, "GET", "/api/report?pages=0", 100},

		{"without a key, the address counts", 3, client{address: "203.0.113.1"}, "GET", "/api/export", 2},
		{"each address by itself", 3, client{address: "203.0.113.2"}, "GET", "/api/export", 2},
		{"other paths are free", 9, client{key: "k-3"}, "GET", "/", 9},

		{"logins", 6, client{address: "203.0.113.3"}, "POST", "/login", 5},
		{"and passwords share their limit", 1, client{address: "203.0.113.3"}, "POST", "/password", 0},
		{"by address, whatever the key", 1, client{address: "203.0.113.3", key: "k-cron"}, "POST", "/login", 0},
		{"of others", 1, client{address: "203.0.113.4"}, "POST", "/password", 1},
	} {
		if got := p.admitted(t, test.n, test.by, test.method, test.target); got != test.want {
			t.Errorf("%s: %d of %d %s %s of %+v were admitted, want %d", test.why, got, test.n, test.method, test.target, test.by, test.want)
		}
	}
	if response := p.send(t, client{key: "k-stolen"}, "GET", "/api/items"); response.StatusCode != http.StatusForbidden {
		t.Errorf("a key on the block list gets the status %d, want 403", response.StatusCode)
	}
	p.checkPenalty(t)
	p.checkSecrets(t)
	p.checkOutage(t)
}

// checkPenalty checks that an address is kept out for longer than the limit alone would.
func (p *plansExample) checkPenalty(t *testing.T) {
	t.Helper()
	response := p.send(t, client{address: "203.0.113.3"}, "POST", "/login")
	after, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || after <= 60 || after > 900 {
		t.Errorf("Retry-After is %q, want what is left of 15 minutes", response.Header.Get("Retry-After"))
	}
}

// checkSecrets checks that the service connected to Redis as the user in one file, with the password in the other.
func (p *plansExample) checkSecrets(t *testing.T) {
	t.Helper()
	connection := p.redis.Client(t)
	clients, err := connection.Do(t.Context(), connection.B().ClientList().Build()).ToString()
	testkit.NoError(t, err)
	if !strings.Contains(clients, " user=app ") {
		t.Errorf("the clients of Redis are\n%s\nwant one with the user app", clients)
	}
}

// checkOutage checks what each policy does while Redis is down.
func (p *plansExample) checkOutage(t *testing.T) {
	t.Helper()
	p.redis.Kill()
	testkit.Eventually(t, "logins to be closed", func() bool {
		return p.send(t, client{address: "203.0.113.5"}, "POST", "/login").StatusCode == http.StatusServiceUnavailable
	})
	if got := p.admitted(t, 3, client{key: "k-8"}, "GET", "/api/export"); got != 2 {
		t.Errorf("without Redis %d of 3 exports are admitted, want 2: the service counts by itself", got)
	}
}
