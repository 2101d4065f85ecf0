package program_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestSlotsOfAKilledProxy checks two proxies that share the slots of a store. When one is killed, its slots are free for the other
// after their time to live, and not before.
func TestSlotsOfAKilledProxy(t *testing.T) {
	const slots = 5
	began := make(chan bool, slots)
	application := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			began <- true
			<-r.Context().Done()
		}
	}))
	defer application.Close()
	file := write(t, "slots.yaml", fmt.Sprintf("store: %s\nstore_timeout: 5s\npolicies:\n  held: {limits: [%d in-flight ttl=%v]}\n",
		strconv.Quote("redis://"+redistest.Server(t).Addr()), slots, slotTTL))
	proxy := func() (at string, kill func()) {
		welcome, kill := startKillable(t, "  listens ", "proxy", "--http", "127.0.0.1:0", "--admin", "off", "--to", application.URL, "--config", file)
		found := regexp.MustCompile(`(?m)^  listens +(http://\S+)`).FindStringSubmatch(welcome)
		if found == nil {
			t.Fatalf("the proxy does not print its address:\n%s", welcome)
		}
		return found[1], kill
	}
	first, kill := proxy()
	second, _ := proxy()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range slots {
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, first+"/long", nil)
			if err != nil {
				return
			}
			if response, err := http.DefaultClient.Do(request); err == nil { // it is cut off by the kill
				_ = response.Body.Close()
			}
		}()
		select {
		case <-began:
		case <-time.After(time.Minute):
			t.Fatal("a request did not reach the application")
		}
	}
	status := func() int {
		response, err := http.Get(second + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	if got := status(); got != http.StatusTooManyRequests {
		t.Fatalf("while the first holds all slots: got %d, want 429", got)
	}
	kill()
	if got := status(); got != http.StatusTooManyRequests {
		t.Errorf("at once: got %d, want 429", got)
	}
	testkit.Eventually(t, "the slots are free", func() bool { return status() == http.StatusOK })
}
