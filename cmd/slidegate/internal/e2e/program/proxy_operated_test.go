package program_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// operated is a proxy that runs as a program, and the URLs of its listeners.
type operated struct {
	t              *testing.T
	listens, admin string
	kill           func()
}

// startOperated starts a proxy before an application that says hello.
func startOperated(t *testing.T, args ...string) *operated {
	t.Helper()
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(application.Close)
	free := []string{"proxy", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--to", application.URL}
	welcome, kill := startKillable(t, "  store ", append(free, args...)...)
	found := regexp.MustCompile(`(?m)^  (?:listens|admin) +(http://\S+)`).FindAllStringSubmatch(welcome, -1)
	if len(found) != 2 {
		t.Fatalf("it does not say where it listens:\n%s", welcome)
	}
	return &operated{t, found[0][1], found[1][1], kill}
}

// status asks the application, as a tenant.
func (p *operated) status(tenant string) int {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodGet, p.listens+"/", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("X-Tenant", tenant)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Error(err)
		return 0
	}
	defer got.Body.Close()
	_, _ = io.Copy(io.Discard, got.Body)
	return got.StatusCode
}

// order has a command of the program ask the admin listener.
func (p *operated) order(args ...string) {
	p.t.Helper()
	if status, out, errs := call(p.t, append(args, "--server", p.admin)...); status != 0 {
		p.t.Fatalf("%q: status %d, %s%s", args, status, out, errs)
	}
}

// TestProxiesObeyOperators: two proxies over one Redis, under load. A block that one of them is told holds at both, and at one that starts
// later, and so does its end. Each tells whom it refused. How soon both obey is in the log of the test.
func TestProxiesObeyOperators(t *testing.T) {
	args := []string{"--store", "redis://" + redistest.Server(t).Addr(), "--limit", "1000000/1h", "--key", "{header:X-Tenant}"}
	first, second := startOperated(t, args...), startOperated(t, args...)
	ended := make(chan struct{})
	var load sync.WaitGroup
	for _, p := range []*operated{first, second} {
		load.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					if got := p.status("others"); got != http.StatusOK {
						t.Errorf("another tenant gets %d", got)
						return
					}
				}
			}
		})
	}
	defer load.Wait()
	defer close(ended)
	obeyed := func(what string, status int, proxies ...*operated) {
		t.Helper()
		told := time.Now()
		for _, p := range proxies {
			testkit.Eventually(t, what, func() bool { return p.status("scraper") == status })
		}
		t.Logf("%s: after %v", what, time.Since(told))
	}
	obeyed("before", http.StatusOK, first, second)
	first.order("block", "scraper", "--for", "1h", "--why", "it scrapes")
	obeyed("the block", http.StatusTooManyRequests, first, second)
	for _, p := range []*operated{first, second} {
		if status, out, errs := call(t, "top", "--server", p.admin); status != 0 || !strings.Contains(out, `default "scraper"`) {
			t.Errorf("top says %s%s", out, errs)
		}
	}
	again := startOperated(t, args...)
	obeyed("after a start", http.StatusTooManyRequests, again)
	second.order("unblock", "scraper")
	obeyed("the end of the block", http.StatusOK, second, first, again)
}

// TestProxyKeepsRulings: without a store that is shared, a block outlives a proxy that is killed, by the file beside its state.
func TestProxyKeepsRulings(t *testing.T) {
	state := write(t, "ignored", "") + ".state"
	args := []string{"--limit", "1000/1h", "--key", "{header:X-Tenant}", "--state", state}
	p := startOperated(t, args...)
	p.order("block", "scraper")
	if got := p.status("scraper"); got != http.StatusForbidden {
		t.Errorf("a block without an end: got %d, want 403", got)
	}
	p.kill()
	testkit.Eventually(t, "the lock of the state is free", func() bool {
		conn, err := http.Get(p.admin + "/healthz")
		if err == nil {
			conn.Body.Close()
		}
		return err != nil
	})
	p = startOperated(t, args...)
	if got := p.status("scraper"); got != http.StatusForbidden {
		t.Errorf("after the proxy was killed: got %d, want 403", got)
	}
	if got := p.status("others"); got != http.StatusOK {
		t.Errorf("another tenant: got %d, want 200", got)
	}
}
