package service_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestStateOnFullDisk: on a full disk, decisions and rulings go on in memory and say so, until there is space.
func TestStateOnFullDisk(t *testing.T) {
	disk := testkit.SmallDisk(t, "4m")
	s := start(t, ruledFile, func(o *service.Options) { o.State, o.Metrics = filepath.Join(disk, "state"), "127.0.0.1:0" })
	look := func(flag, ready string, durable float64) {
		t.Helper()
		if got := s.send(t, "http", "POST", "/v1/charge", `{"key":"me"}`); got.status != http.StatusOK || strings.Contains(got.body, `"not_durable"`) != (flag != "") {
			t.Errorf("a charge: got %+v, want the flag %q", got, flag)
		}
		if got := s.send(t, "http", "GET", "/readyz", ""); got.status != http.StatusOK || !strings.HasPrefix(got.body, ready) {
			t.Errorf("/readyz: got %+v, want %s", got, ready)
		}
		if got, found := s.metric(t, "slidegate_state_durable"); !found || got != durable {
			t.Errorf("slidegate_state_durable: got %v, want %v", got, durable)
		}
	}
	look("not_durable", "degraded: state: ", 0)
	rule := func(durable bool) {
		t.Helper()
		for _, change := range [][2]string{{"/v1/rulings", `{"key":"bad","kind":"block","who":"ann"}`}, {"/v1/rulings/clear", `{"key":"bad","who":"ann"}`}} {
			got := s.send(t, "admin", "POST", change[0], change[1])
			flag, note := strings.Contains(got.body, `"flags":["not_durable"]`), strings.Contains(got.body, "a crash would forget this")
			if got.status != http.StatusOK || flag == durable || note == durable {
				t.Errorf("%s: got %+v, want that it is durable: %v", change[0], got, durable)
			}
		}
	}
	rule(false)
	testkit.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=200m"))
	testkit.Eventually(t, "the end of it", func() bool { return s.send(t, "http", "GET", "/readyz", "").body == "ready\n" })
	look("", "ready", 1)
	rule(true)
	if !s.Log.Has("decisions are not durable") || !s.Log.Has("decisions are durable again") {
		t.Errorf("the log has not both ends:\n%s", s.Log)
	}
}
