package leases_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/servertest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestReset forgets what a busy key has used: it then gets all of its quota, and no more.
func TestReset(t *testing.T) {
	s := start(t, newRedis(t))
	var leased atomic.Int64
	ask := jsonDoor(t, s, "default", "hot", &leased)
	crowd(t, quota/2, ask)
	if got := s.Ask(t, "admin", "POST", "/v1/reset", `{"policy":"default","key":"hot"}`); got.Status != http.StatusNoContent {
		t.Fatalf("reset: %+v", got)
	}
	admitted := int64(0)
	testkit.Eventually(t, "the quota is used up again", func() bool {
		admitted += crowd(t, quota+1, ask)
		return admitted >= quota || t.Failed()
	})
	if admitted > quota || leased.Load() == 0 {
		t.Errorf("%d were admitted after the reset, want %d; %d answers were leased", admitted, quota, leased.Load())
	}
}

// TestReservations takes reservations of a busy key, settles some and cancels others: what is given back is there again.
func TestReservations(t *testing.T) {
	store := newRedis(t)
	s, other := start(t, store), start(t, store)
	var leased atomic.Int64
	ask := jsonDoor(t, s, "default", "hot", &leased)
	used := crowd(t, 500, ask)
	for i := range 20 {
		got := s.Ask(t, "http", "POST", "/v1/reserve", `{"policy":"default","key":"hot","cost":5}`)
		_, made, found := strings.Cut(strings.TrimSuffix(strings.TrimSpace(got.Body), "}"), `"reservation":`)
		if got.Status != http.StatusOK || !found {
			t.Fatalf("reserve: %d %s", got.Status, got.Body)
		}
		used += crowd(t, 20, ask) // the key stays busy
		verb, body := "/v1/settle", `{"cost":3,"reservation":`+made+`}`
		used += 3
		if i%2 == 1 {
			verb, body = "/v1/cancel", `{"reservation":`+made+`}`
			used -= 3
		}
		if got := s.Ask(t, "http", "POST", verb, body); got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", verb, got.Status, got.Body)
		}
	}
	if leased.Load() == 0 {
		t.Fatal("no answer had the flag leased")
	}
	got := int64(0)
	testkit.Eventually(t, "what is idle is given back", func() bool {
		got = remaining(t, other, "hot")
		return got >= quota-used
	})
	if got != quota-used {
		t.Errorf("%d remain, want %d of %d less %d", got, quota-used, quota, used)
	}
}

// TestExplain says of a busy key that its answers are leased.
func TestExplain(t *testing.T) {
	s := start(t, newRedis(t))
	var leased atomic.Int64
	ask := jsonDoor(t, s, "default", "hot", &leased)
	testkit.Eventually(t, "explain says leased", func() bool {
		crowd(t, 50, ask)
		got := s.Ask(t, "admin", "GET", "/v1/explain?policy=default&key=hot", "")
		if got.Status != http.StatusOK {
			t.Fatalf("explain: %d %s", got.Status, got.Body)
		}
		return strings.Contains(got.Body, `"source":"leased"`)
	})
}

// TestReload gives a policy another quota while a key of it is busy: blocks that were taken under the other one end.
func TestReload(t *testing.T) {
	store, path := newRedis(t), ""
	s := servertest.Start(t, policies(store, quota), func(o *server.Options) { path = o.Paths[0] })
	var leased atomic.Int64
	ask := jsonDoor(t, s, "default", "hot", &leased)
	admitted := crowd(t, quota/2, ask)
	servertest.Write(t, path, policies(store, int(admitted)))
	testkit.NoError(t, s.Reload())
	if more := crowd(t, quota, ask); more > 0 {
		t.Errorf("%d were admitted of a quota of %d that was used up", more, admitted)
	}
	servertest.Write(t, path, policies(store, quota))
	testkit.NoError(t, s.Reload())
	testkit.Eventually(t, "the quota is used up", func() bool {
		admitted += crowd(t, quota+1, ask)
		return admitted >= quota || t.Failed()
	})
	if admitted != quota {
		t.Errorf("%d were admitted, want %d", admitted, quota)
	}
}

// TestMemory: with a store in memory a leased limit decides as another does, and nothing is taken in blocks.
func TestMemory(t *testing.T) {
	s := start(t, `"memory:"`)
	var leased atomic.Int64
	admitted := crowd(t, 3*quota, jsonDoor(t, s, "default", "hot", &leased), envoyDoor(t, s, "hot"), respDoor(t, s, 1, "SG.ALLOW", "default", "hot"))
	if want := int64(2 * quota); admitted != want || leased.Load() > 0 { // of the policy and of Envoy's rule
		t.Errorf("%d were admitted, want %d; %d answers were leased", admitted, want, leased.Load())
	}
	if got := fmt.Sprint(metricsOf(t, s)); got != "map[]" {
		t.Errorf("there are the metrics %s, want none about leases", got)
	}
}
