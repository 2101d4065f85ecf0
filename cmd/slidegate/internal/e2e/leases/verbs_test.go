package leases_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestReset resets a busy key: it then gets its whole quota, and no more.
func TestReset(t *testing.T) {
	s := start(t, newRedis(t))
	var leased atomic.Int64
	send := viaJSON(t, s, "default", "hot", &leased)
	runCallers(t, quota/2, send)
	if got := s.Send(t, "admin", "POST", "/v1/reset", `{"policy":"default","key":"hot"}`); got.Status != http.StatusNoContent {
		t.Fatalf("reset: got %+v, want status 204", got)
	}
	admitted := int64(0)
	testkit.Eventually(t, "the quota is used up again", func() bool {
		admitted += runCallers(t, quota+1, send)
		return admitted >= quota || t.Failed()
	})
	if admitted > quota || leased.Load() == 0 {
		t.Errorf("%d were admitted after the reset, want %d; %d decisions were leased", admitted, quota, leased.Load())
	}
}

// TestReservations makes reservations for a busy key, settles some and cancels others: refunded units are available again.
func TestReservations(t *testing.T) {
	store := newRedis(t)
	s, other := start(t, store), start(t, store)
	var leased atomic.Int64
	send := viaJSON(t, s, "default", "hot", &leased)
	used := runCallers(t, 500, send)
	for i := range 20 {
		got := s.Send(t, "http", "POST", "/v1/reserve", `{"policy":"default","key":"hot","cost":5}`)
		_, made, found := strings.Cut(strings.TrimSuffix(strings.TrimSpace(got.Body), "}"), `"reservation":`)
		if got.Status != http.StatusOK || !found {
			t.Fatalf("reserve: %d %s", got.Status, got.Body)
		}
		used += runCallers(t, 20, send) // the key stays busy
		verb, body := "/v1/settle", `{"cost":3,"reservation":`+made+`}`
		used += 3
		if i%2 == 1 {
			verb, body = "/v1/cancel", `{"reservation":`+made+`}`
			used -= 3
		}
		if got := s.Send(t, "http", "POST", verb, body); got.Status != http.StatusOK {
			t.Fatalf("%s: got %d %s, want status 200", verb, got.Status, got.Body)
		}
	}
	if leased.Load() == 0 {
		t.Fatal("no decision had the flag leased")
	}
	got := int64(0)
	testkit.Eventually(t, "idle leases are refunded", func() bool {
		got = remaining(t, other, "hot")
		return got >= quota-used
	})
	if got != quota-used {
		t.Errorf("%d remain, want %d: %d less %d", got, quota-used, quota, used)
	}
}

// TestExplain checks that explain reports the decisions of a busy key as leased.
func TestExplain(t *testing.T) {
	s := start(t, newRedis(t))
	var leased atomic.Int64
	send := viaJSON(t, s, "default", "hot", &leased)
	testkit.Eventually(t, "explain reports leased", func() bool {
		runCallers(t, 50, send)
		got := s.Send(t, "admin", "GET", "/v1/explain?policy=default&key=hot", "")
		if got.Status != http.StatusOK {
			t.Fatalf("explain: got %d %s, want status 200", got.Status, got.Body)
		}
		return strings.Contains(got.Body, `"source":"leased"`)
	})
}

// TestReload changes the quota of a policy while a key is busy: leases under the old quota end.
func TestReload(t *testing.T) {
	store, path := newRedis(t), ""
	s := servicetest.Start(t, policies(store, quota), func(o *service.Options) { path = o.Paths[0] })
	var leased atomic.Int64
	send := viaJSON(t, s, "default", "hot", &leased)
	admitted := runCallers(t, quota/2, send)
	servicetest.Write(t, path, policies(store, int(admitted)))
	testkit.NoError(t, s.Reload())
	if more := runCallers(t, quota, send); more > 0 {
		t.Errorf("%d more were admitted although the quota of %d was used up", more, admitted)
	}
	servicetest.Write(t, path, policies(store, quota))
	testkit.NoError(t, s.Reload())
	testkit.Eventually(t, "the quota is used up", func() bool {
		admitted += runCallers(t, quota+1, send)
		return admitted >= quota || t.Failed()
	})
	if admitted != quota {
		t.Errorf("%d were admitted, want %d", admitted, quota)
	}
}

// TestMemoryStoreLeasesNothing checks that over a store in memory a leased limit decides like any other, and nothing is leased.
func TestMemoryStoreLeasesNothing(t *testing.T) {
	s := start(t, `"memory:"`)
	var leased atomic.Int64
	admitted := runCallers(t, 3*quota, viaJSON(t, s, "default", "hot", &leased), viaEnvoy(t, s, "hot"), viaRESP(t, s, 1, "SG.ALLOW", "default", "hot"))
	if want := int64(2 * quota); admitted != want || leased.Load() > 0 { // for the policy and for Envoy's rule
		t.Errorf("%d were admitted, want %d; %d decisions were leased", admitted, want, leased.Load())
	}
	if got := fmt.Sprint(metricsOf(t, s)); got != "map[]" {
		t.Errorf("got metrics %s, want none about leases", got)
	}
}
