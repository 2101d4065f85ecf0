package page_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/e2e/browser"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// program is the real binary, built once.
var program string

func TestMain(m *testing.M) { testkit.MainWithProgram(m, filepath.Join("..", "..", ".."), &program) }

const proxied = `policies:
  orders: {key: 'header:X-Client', match: GET /orders, limits: [3/1h]}
  login: {key: 'header:X-Client', match: POST /login, limits: [1/1h]}
  reports: {key: 'header:X-Client', match: /reports, limits: [2 in-flight ttl=30s]}
`

// startProxy runs slidegate proxy in front of an application, and returns the URLs of its listeners.
func startProxy(t *testing.T, application http.Handler) (listens, admin string) {
	t.Helper()
	to := httptest.NewServer(application)
	t.Cleanup(to.Close)
	policies := filepath.Join(t.TempDir(), "slidegate.yaml")
	testkit.NoError(t, os.WriteFile(policies, []byte(proxied), 0o600))
	p := testkit.Run(t, exec.Command(program, "proxy", "--to", to.URL, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config", policies))
	p.Await(t, "it prints its addresses", func() bool {
		found := regexp.MustCompile(`(?m)^  (?:listens|admin) +(http://\S+)`).FindAllStringSubmatch(p.Output.String(), -1)
		if len(found) == 2 {
			listens, admin = found[0][1], found[1][1]
		}
		return len(found) == 2
	})
	return listens, admin
}

// TestProxy uses the page of a proxy that runs as a program: it shows which requests were refused and which run, and what is changed on it is
// in force for the next ones.
func TestProxy(t *testing.T) {
	began, end, ended := make(chan bool), make(chan bool), make(chan int, 1)
	listens, admin := startProxy(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reports" {
			began <- true
			select {
			case <-end:
			case <-r.Context().Done(): // the test has failed
			}
		}
	}))
	send := func(method, path, client string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, listens+path, nil)
		testkit.NoError(t, err)
		r.Header.Set("X-Client", client)
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer got.Body.Close()
		_, _ = io.Copy(io.Discard, got.Body)
		return got.StatusCode
	}
	for n := range 5 {
		if got, want := send("GET", "/orders?page=2", "acme"), map[bool]int{true: 200, false: 429}[n < 3]; got != want {
			t.Fatalf("request %d: got %d, want %d", n, got, want)
		}
	}
	send("POST", "/login", "bob")
	send("POST", "/login", "bob")
	go func() { ended <- send("GET", "/reports", "acme") }()
	<-began

	b := browser.Open(t)
	b.Show(admin, 1280, 800, "light")
	wait(t, b, `document.querySelectorAll("#refused tbody tr").length === 2`)
	rows := browser.Eval[[]string](b, `[...document.querySelectorAll("#refused tbody tr")].filter(row => row.getBoundingClientRect().bottom <= 800).map(row => [...row.querySelectorAll("small, td")].map(cell => cell.textContent).join("|"))`)
	if want := []string{"orders \u00b7 GET /orders|2|3|3/1h", "login \u00b7 POST /login|1|1|1/1h"}; !slices.Equal(rows, want) {
		t.Errorf("the first screen shows %q as refused, want %q", rows, want)
	}
	const running = `[...document.querySelectorAll(".policy")].map(p => p.querySelector(".policyout").textContent + p.querySelector("bdi").textContent).filter(p => /proxy/.test(p)).join()`
	wait(t, b, running+` === "1\u00a0in\u00a0the\u00a0proxyreports"`)
	close(end)
	if got := <-ended; got != 200 {
		t.Errorf("the request that ran: got %d, want 200", got)
	}
	wait(t, b, running+` === ""`)

	click(b, "#refused .keybutton")
	click(b, "#key .ask .primary")
	wait(t, b, `document.querySelector("#key-title").innerText === "acme" && document.querySelector("#key .limitstate")?.innerText === "0 of 3 free"`)
	for _, step := range []struct {
		action, effect string
		want           int
	}{
		{"reset", `document.querySelector("#key .limitstate").innerText === "3 of 3 free"`, 200},
		{"block", `!document.querySelector("#key .ruling").hidden`, 429},
		{"end", `document.querySelector("#key .ruling").hidden`, 200},
	} {
		click(b, "#key [data-action="+step.action+"]")
		browser.Eval[chromedp.Void](b, `document.querySelector("#key [name=why]").value = "a test"`)
		click(b, "#key .actionform [type=submit]")
		wait(t, b, step.effect)
		if got := send("GET", "/orders", "acme"); got != step.want {
			t.Errorf("after %s: got %d, want %d", step.action, got, step.want)
		}
	}
	b.CheckQuiet()
}
