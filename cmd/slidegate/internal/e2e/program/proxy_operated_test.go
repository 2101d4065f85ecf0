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

// operatedProxy is a proxy that runs as a program, and the URLs of its listeners.
type operatedProxy struct {
	t              *testing.T
	listens, admin string
	kill           func()
}

// startOperatedProxy starts a proxy in front of an application that responds "hello".
func startOperatedProxy(t *testing.T, args ...string) *operatedProxy {
	t.Helper()
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(application.Close)
	free := []string{"proxy", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--to", application.URL}
	welcome, kill := startKillable(t, "  admin ", append(free, args...)...)
	found := regexp.MustCompile(`(?m)^  (?:listens|admin) +(http://\S+)`).FindAllStringSubmatch(welcome, -1)
	if len(found) != 2 {
		t.Fatalf("the proxy does not print its addresses:\n%s", welcome)
	}
	return &operatedProxy{t, found[0][1], found[1][1], kill}
}

// status sends a request of a tenant to the application, and returns the status.
func (p *operatedProxy) status(tenant string) int {
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

// runAdmin runs a command of the program against the admin listener.
func (p *operatedProxy) runAdmin(args ...string) {
	p.t.Helper()
	if status, out, errs := call(p.t, append(args, "--server", p.admin)...); status != 0 {
		p.t.Fatalf("%q: status %d, %s%s", args, status, out, errs)
	}
}

// TestProxiesObeyOperators runs two proxies over one Redis, under load. A block made at one of them applies at both, and at one
// that starts later, and so does its end. Each reports the keys that it refused. The test logs how soon both obey.
func TestProxiesObeyOperators(t *testing.T) {
	args := []string{"--store", "redis://" + redistest.Server(t).Addr(), "--limit", "1000000/1h", "--key", "{header:X-Tenant}"}
	first, second := startOperatedProxy(t, args...), startOperatedProxy(t, args...)
	ended := make(chan struct{})
	var load sync.WaitGroup
	for _, p := range []*operatedProxy{first, second} {
		load.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					if got := p.status("others"); got != http.StatusOK {
						t.Errorf("another tenant: got %d, want 200", got)
						return
					}
				}
			}
		})
	}
	defer load.Wait()
	defer close(ended)
	obeyed := func(what string, status int, proxies ...*operatedProxy) {
		t.Helper()
		made := time.Now()
		for _, p := range proxies {
			testkit.Eventually(t, what, func() bool { return p.status("scraper") == status })
		}
		t.Logf("%s: after %v", what, time.Since(made))
	}
	obeyed("before", http.StatusOK, first, second)
	first.runAdmin("block", "scraper", "--for", "1h", "--why", "it scrapes")
	obeyed("the block", http.StatusTooManyRequests, first, second)
	for _, p := range []*operatedProxy{first, second} {
		if got := get(t, p.admin+"/v1/seen"); !strings.Contains(got, `"masked":"sc…r"`) {
			t.Errorf("/v1/seen: got %s, want the scraper", got)
		}
	}
	again := startOperatedProxy(t, args...)
	obeyed("a block, after a start", http.StatusTooManyRequests, again)
	second.runAdmin("unblock", "scraper")
	obeyed("the end of the block", http.StatusOK, second, first, again)
}

// TestProxyKeepsRulings checks that without a shared store, a block survives the kill of a proxy in its state folder.
func TestProxyKeepsRulings(t *testing.T) {
	state := write(t, "ignored", "") + ".state"
	args := []string{"--limit", "1000/1h", "--key", "{header:X-Tenant}", "--state", state}
	p := startOperatedProxy(t, args...)
	p.runAdmin("block", "scraper")
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
	p = startOperatedProxy(t, args...)
	if got := p.status("scraper"); got != http.StatusForbidden {
		t.Errorf("after the proxy was killed: got %d, want 403", got)
	}
	if got := p.status("others"); got != http.StatusOK {
		t.Errorf("another tenant: got %d, want 200", got)
	}
}
