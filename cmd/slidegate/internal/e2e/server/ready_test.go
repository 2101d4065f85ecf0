package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestReadyWhileTheStoreHangs checks that /readyz responds quickly while the store hangs, however many clients request it, that it says
// what is degraded, and that the log has one line for each change.
func TestReadyWhileTheStoreHangs(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (url string, processes func() []int){
		"redis": func(t *testing.T) (string, func() []int) {
			node := redistest.Server(t)
			client := redis.NewClient(&redis.Options{Addr: node.Addr()})
			t.Cleanup(func() { client.Close() })
			return "redis://" + node.Addr(), func() []int {
				text, err := client.Info(t.Context(), "server").Result()
				if err != nil {
					t.Fatal(err)
				}
				pid, _ := strconv.Atoi(regexp.MustCompile(`process_id:(\d+)`).FindStringSubmatch(text)[1])
				return []int{pid}
			}
		},
		"postgres": func(t *testing.T) (string, func() []int) {
			db := pgtest.Start(t, "fsync = off")
			pool := db.Pool(t)
			return db.URL(), func() (pids []int) {
				rows, err := pool.Query(t.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name = 'slidegate' "+
					"UNION ALL SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int") // it would start other processes
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				for rows.Next() {
					var pid int
					if err := rows.Scan(&pid); err != nil {
						t.Fatal(err)
					}
					pids = append(pids, pid)
				}
				return pids
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, processes := open(t)
			hang(t, url, processes)
		})
	}
}

func hang(t *testing.T, url string, processes func() []int) {
	s := servicetest.Start(t, fmt.Sprintf("store: %q\npolicies: {p: {limits: [1/1h]}}\n", url), nil)
	ready := func() servicetest.Reply { return s.Send(t, "http", "GET", "/readyz", "") }
	isReady := func() bool { got := ready(); return got.Status == http.StatusOK && got.Body == "ready\n" }
	isDegraded := func(got servicetest.Reply) bool {
		return got.Status == http.StatusOK && strings.HasPrefix(got.Body, "degraded: store")
	}
	testkit.Eventually(t, "the service is ready", isReady)
	errorsLogged := func() int { return strings.Count(s.Log.String(), "level=ERROR") }
	before := errorsLogged() // while it connected, if that took long
	pids := processes()
	if len(pids) == 0 {
		t.Fatal("the store has no processes")
	}
	signal := func(s syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, s); err != nil && s == syscall.SIGSTOP { // it may have ended in the meantime
				t.Error(err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	testkit.Eventually(t, "the service is degraded", func() bool { return isDegraded(ready()) })
	var slowest time.Duration
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 25 {
				began := time.Now()
				if got := ready(); !isDegraded(got) {
					t.Errorf("while the store hangs: got %+v, want 200 and degraded: store", got)
				}
				mu.Lock()
				slowest = max(slowest, time.Since(began))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if slowest > 800*time.Millisecond { // nothing in it blocks, and the machine may be busy; a kubelet waits for a second
		t.Errorf("the slowest response took %v", slowest)
	}
	if got := s.Send(t, "http", "GET", "/readyz?require=store", ""); got.Status != http.StatusServiceUnavailable {
		t.Errorf("with require=store: got %+v, want 503", got)
	}
	if n := errorsLogged() - before; n != 1 {
		t.Errorf("%d errors after more than 100 responses, want 1 for the beginning of the outage:\n%s", n, s.Log)
	}
	signal(syscall.SIGCONT)
	testkit.Eventually(t, "the service is ready again", isReady)
	s.Stop(t) // it must not say that the store is down
	if n := errorsLogged() - before; n != 2 || !s.Log.Has("the store decides again") {
		t.Errorf("got %d errors, want one for the beginning and one for the end of the outage:\n%s", n, s.Log)
	}
}
