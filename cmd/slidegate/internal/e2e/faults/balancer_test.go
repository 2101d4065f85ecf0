package faults_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestBalancer stops the store of two instances behind nginx for ten seconds, under load.
func TestBalancer(t *testing.T) {
	if !*all {
		t.Skip("SKIPPED: make long T=faults measures a balancer; TestPromises checks /readyz")
	}
	emit(t, `
| store | fault, 10 s | program | requests | failed | slowest | checks of /readyz that fail | longest time without a ready instance |
|---|---|---|---|---|---|---|---|
`)
	for _, target := range []struct {
		store string
		open  func(t *testing.T) (server, string)
	}{
		{"Redis", func(t *testing.T) (server, string) {
			node := redistest.Server(t, "appendonly yes")
			return redisNode{node}, "redis://" + node.Addr()
		}},
		{"PostgreSQL", func(t *testing.T) (server, string) {
			s := pgtest.Start(t, "fsync = off")
			return postgresServer{s}, s.URL()
		}},
	} {
		for _, kill := range []bool{false, true} {
			for _, p := range programs() {
				name := map[bool]string{false: "stopped", true: "killed"}[kill]
				t.Run(target.store+"/"+name+"/"+p.String(), func(t *testing.T) {
					store, url := target.open(t)
					begin, end := store.Kill, store.Restart
					if !kill {
						begin, end = func() { store.Signal(syscall.SIGSTOP) }, func() { store.Signal(syscall.SIGCONT) }
					}
					b := balance(t, p, url, 10*time.Second, begin, end)
					emit(t, fmt.Sprintf("| %s | %s | %s | %d | %d%s | %s | %d of %d | %s |\n", target.store, name, p,
						b.requests.Load(), b.failed.Load(), b.why(), seconds(b.slowest), b.out, b.checks, seconds(b.none)))
				})
			}
		}
	}
}

// balanced is what clients of two instances behind nginx saw, and what an active check of their readiness saw.
type balanced struct {
	requests, failed atomic.Int64

	mu       sync.Mutex
	slowest  time.Duration
	firstWhy string

	checks, out int           // of each instance, five times a second
	none        time.Duration // the longest time without an instance that is ready
}

func (b *balanced) why() string {
	if b.firstWhy == "" {
		return ""
	}
	return " (" + b.firstWhy + ")"
}

// balance runs two instances behind nginx under load, while their store is away for a time.
func balance(t *testing.T, p program, url string, lasts time.Duration, begin, end func()) *balanced {
	t.Helper()
	file := strings.Replace(policies(url, p), `limits: ["5/1h"]`, `limits: ["1000000000/1h"]`, 1)
	file = strings.Replace(file, `"{key}", limits: ["1000000000/1h"]`, `"{address}", limits: ["1000000000/1h"]`, 1)
	for _, name := range []string{"counted", "many"} { // forward-auth would apply them all
		file = strings.Replace(file, "  "+name+": {", "  "+name+": {match: /never, ", 1)
	}
	instances := []*service{serve(t, p, file), serve(t, p, file)}
	ready(t, instances...)
	front := startNginx(t, instances[0].addresses["http"], instances[1].addresses["http"])
	b, ended := &balanced{}, make(chan struct{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { b.client(front, ended) })
	}
	testkit.Eventually(t, "clients are answered", func() bool { return b.requests.Load() > 100 })
	began := time.Now()
	begin()
	b.check(instances, began.Add(lasts))
	end()
	b.check(instances, time.Now().Add(3*time.Second))
	close(ended)
	all.Wait()
	return b
}

// client sends 25 requests a second until the end.
func (b *balanced) client(front string, ended chan struct{}) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: testkit.Patience}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		began, why := time.Now(), ""
		response, err := client.Get("http://" + front + "/")
		if err != nil {
			why = err.Error()
		} else {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if answer := response.Header.Get("X-Answer"); response.StatusCode != http.StatusOK || answer != "200" {
				why = fmt.Sprintf("status %d, of the service %q", response.StatusCode, answer)
			}
		}
		b.requests.Add(1)
		b.mu.Lock()
		b.slowest = max(b.slowest, time.Since(began))
		if why != "" {
			b.failed.Add(1)
			b.firstWhy = why
		}
		b.mu.Unlock()
	}
}

// check asks for the readiness of the instances, as a balancer would, until a time.
func (b *balanced) check(instances []*service, until time.Time) {
	since := time.Time{} // none is ready since then
	for time.Now().Before(until) {
		out := 0
		for _, s := range instances {
			b.checks++
			if status, _ := s.get("/readyz"); status != http.StatusOK {
				out++
			}
		}
		b.out += out
		switch {
		case out < len(instances):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		default:
			b.none = max(b.none, time.Since(since))
		}
		pass(200 * time.Millisecond)
	}
}

// startNginx runs the example for two instances in front of an application, with a header that says what the service responded.
func startNginx(t *testing.T, instances ...string) (address string) {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(app.Close)
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "examples", "nginx", "slidegate.conf"))
	testkit.NoError(t, err)
	address = testkit.FreeAddress(t)
	configured := string(text)
	for _, change := range [][2]string{
		{"    listen 80;", "    listen " + address + ";"},
		{"    server 127.0.0.1:8080;\n", "server " + strings.Join(instances, ";\nserver ") + ";\n"},
		{"http://127.0.0.1:3000;", app.URL + ";"},
		{"add_header RateLimit $slidegate_limit always;", "add_header RateLimit $slidegate_limit always; add_header X-Answer $slidegate_answer always;"},
	} {
		if !strings.Contains(configured, change[0]) {
			t.Fatalf("the example has no %q", change[0])
		}
		configured = strings.ReplaceAll(configured, change[0], change[1])
	}
	testkit.Run(t, testkit.Nginx(t, configured)).Await(t, "nginx listens", func() bool { return testkit.Listens(address) })
	return address
}
