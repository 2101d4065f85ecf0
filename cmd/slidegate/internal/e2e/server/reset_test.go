package server_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestResetReachesOtherInstances checks that a reset takes effect at once at its instance; another instance may refuse for up to a
// second more, by its cache, and flags that. docs/service.md and docs/api.md promise both.
func TestResetReachesOtherInstances(t *testing.T) {
	text := fmt.Sprintf("store: redis://%s\nstore_timeout: 2s\npolicies: {default: {limits: [1/1h]}}\n", redistest.Server(t).Addr())
	one, other := servicetest.Start(t, text, nil), servicetest.Start(t, text, nil)
	if got, _ := flagsOf(t, one, "default", "me"); got != http.StatusOK {
		t.Fatalf("the first: got status %d, want 200", got)
	}
	for _, s := range []*servicetest.Service{one, other} {
		if got, _ := flagsOf(t, s, "default", "me"); got != http.StatusTooManyRequests {
			t.Fatalf("the second: got status %d, want 429", got)
		}
	}
	remembered := time.Now() // or a little earlier
	if got := one.Send(t, "admin", "POST", "/v1/reset", `{"key":"me"}`); got.Status != http.StatusNoContent {
		t.Fatalf("reset: got %+v, want status 204", got)
	}
	refused := 0
	testkit.Eventually(t, "the other instance admits the key", func() bool {
		sent := time.Now()
		got, flags := flagsOf(t, other, "default", "me")
		if got == http.StatusOK {
			return true
		}
		if refused++; len(flags) != 1 || flags[0] != "cached" {
			t.Errorf("refused after a reset with the flags %v, want cached", flags)
		}
		if late := sent.Sub(remembered); late > time.Second {
			t.Errorf("refused %v after the store was last called", late)
		}
		return false
	})
	if refused == 0 {
		t.Log("the other instance had forgotten the refusal already")
	}
	if got := one.Send(t, "admin", "POST", "/v1/reset", `{"key":"me"}`); got.Status != http.StatusNoContent {
		t.Fatalf("reset: got %+v, want status 204", got)
	}
	if got, flags := flagsOf(t, one, "default", "me"); got != http.StatusOK {
		t.Errorf("at the instance of the reset: got %d %v", got, flags)
	}
}
