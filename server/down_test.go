package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/internal/pgtest"
	"github.com/slidegate/slidegate/internal/redistest"
)

// database is a server that can be down.
type database interface {
	Kill()
	Restart()
}

// TestStoreDown: the service starts while its store is down, says so to whoever asks whether it is ready, and answers by the
// failure modes; once the store is up it decides, until it is down again.
func TestStoreDown(t *testing.T) {
	for name, open := range map[string]func() (database, string){
		"redis": func() (database, string) {
			node := redistest.Server(t)
			return node, "redis://" + node.Addr()
		},
		"postgres": func() (database, string) {
			server := pgtest.Start(t, "fsync = off")
			return server, server.URL()
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, url := open()
			testDown(t, db, url)
		})
	}
}

func testDown(t *testing.T, db database, url string) {
	db.Kill()
	s := start(t, fmt.Sprintf(`
store: %q
store_timeout: 2s
policies:
  open: {failure: open, limits: [2/1h]}
  closed: {failure: closed, limits: [2/1h]}
  local: {failure: local, limits: [2/1h]}
`, url), nil)
	health := func(path string, want int) {
		t.Helper()
		if got := s.ask(t, "http", "GET", path, ""); got.status != want {
			t.Errorf("%s: %+v, not %d", path, got, want)
		}
	}
	down := func(key string) {
		t.Helper()
		health("/healthz", http.StatusOK)
		health("/readyz", http.StatusServiceUnavailable)
		for i, step := range []struct {
			policy string
			want   int
		}{
			{"open", 200}, {"open", 200}, {"open", 200},
			{"closed", 429},
			{"local", 200}, {"local", 200}, {"local", 429},
		} {
			got, flags := s.flags(t, step.policy, key)
			if got != step.want || !slices.Contains(flags, "fallback_"+step.policy) {
				t.Errorf("%d: by failure mode %s: %d, %q", i, step.policy, got, flags)
			}
		}
	}
	down("before")

	db.Restart()
	eventually(t, "the service is ready", func() bool { return s.ask(t, "http", "GET", "/readyz", "").status == http.StatusOK })
	for _, policy := range []string{"open", "closed", "local"} {
		n := 0
		eventually(t, "the store decides about "+policy, func() bool {
			n++
			_, flags := s.flags(t, policy, fmt.Sprint("try ", n))
			return len(flags) == 0
		})
	}
	health("/healthz", http.StatusOK)

	db.Kill()
	eventually(t, "the service is not ready", func() bool { return s.ask(t, "http", "GET", "/readyz", "").status != http.StatusOK })
	down("after")
	if s.log.has("before") || s.log.has("after\"") {
		t.Error("a key is in the log")
	}
}

// flags asks for a unit and returns the status and the flags of the answer.
func (s *service) flags(t *testing.T, policy, key string) (int, []string) {
	t.Helper()
	got := s.ask(t, "http", "POST", "/v1/allow", fmt.Sprintf(`{"policy":%q,"key":%q}`, policy, key))
	var told struct{ Flags []string }
	if err := json.Unmarshal([]byte(got.body), &told); err != nil {
		t.Fatalf("%+v: %v", got, err)
	}
	return got.status, told.Flags
}
