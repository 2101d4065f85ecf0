package leases_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestInstancesShareTheQuota makes two instances take from one key as fast as they can, through each kind of listener. Together they admit
// the quota and no more, from leases, which the metrics show.
func TestInstancesShareTheQuota(t *testing.T) { overStores(t, testTwoInstances) }

func testTwoInstances(t *testing.T, store string) {
	var leased atomic.Int64
	for _, test := range []struct {
		name     string
		most     int64
		listener func(s *servicetest.Service) sendFunc
	}{
		{"JSON", quota, func(s *servicetest.Service) sendFunc { return viaJSON(t, s, "default", "json", &leased) }},
		{"JSON, two limits", quota, func(s *servicetest.Service) sendFunc { return viaJSON(t, s, "several", "several", &leased) }},
		{"SG.ALLOW", quota, func(s *servicetest.Service) sendFunc { return viaRESP(t, s, 1, "SG.ALLOW", "default", "resp") }},
		// This bucket refills one unit in 15 minutes. A leased bucket admits one unit less than it holds.
		{"CL.THROTTLE", quota, func(s *servicetest.Service) sendFunc {
			return viaRESP(t, s, 0, "CL.THROTTLE", "cell", quota, 96, 24*60*60)
		}},
		{"Envoy", quota, func(s *servicetest.Service) sendFunc { return viaEnvoy(t, s, "envoy") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			instances := []*servicetest.Service{start(t, store), start(t, store)}
			senders := []sendFunc{test.listener(instances[0]), test.listener(instances[1])}
			admitted := int64(0)
			testkit.Eventually(t, "all leased units are refunded and admitted", func() bool {
				admitted += runCallers(t, test.most+1, senders...)
				return admitted >= test.most || t.Failed()
			})
			if admitted > test.most {
				t.Errorf("%d were admitted, want %d", admitted, test.most)
			}
			for i, s := range instances {
				got := metricsOf(t, s)
				if got["units_spent"] == 0 || got["calls"] == 0 || got["trips_saved"] <= 0 || got["units_wasted"] != 0 ||
					got["units_taken"] < got["units_spent"]+got["units_returned"] {
					t.Errorf("instance %d: got metrics %v", i, got)
				}
				if text := s.Send(t, "admin", "GET", "/metrics", "").Body; !strings.Contains(text, `source="leased"`) {
					t.Errorf("instance %d: no decisions with the source leased", i)
				}
			}
		})
	}
	if leased.Load() == 0 {
		t.Error("no decision had the flag leased")
	}
}

// TestSeenHasLeases: what the instances have seen says how many leased units are out, of an instance and of its policies.
func TestSeenHasLeases(t *testing.T) {
	s := servicetest.Start(t, policies(newRedis(t), 100*quota), nil)
	var leased atomic.Int64
	send := viaJSON(t, s, "default", "hot", &leased)
	testkit.Eventually(t, "leased units are seen", func() bool {
		runCallers(t, quota/4, send)
		var d seen.Document
		if err := json.Unmarshal([]byte(s.Send(t, "admin", "GET", "/v1/seen", "").Body), &d); err != nil {
			t.Fatal(err)
		}
		p := d.Policies
		return p[0].LeasesOut > 0 && p[0].LeasesOut == d.Instances[0].LeasesOut && p[1].LeasesOut == 0
	})
}

// remaining returns how many units of a key are left, according to an instance that has no lease for it.
func remaining(t testing.TB, s *servicetest.Service, key string) int64 {
	t.Helper()
	got := s.Send(t, "http", "POST", "/v1/peek", fmt.Sprintf(`{"policy":"default","key":%q}`, key))
	var d struct{ Remaining int64 }
	if err := json.Unmarshal([]byte(got.Body), &d); err != nil || got.Status != http.StatusOK {
		t.Fatalf("peek: got %d %s, want status 200", got.Status, got.Body)
	}
	return d.Remaining
}

// TestShutdownRefundsLeases shuts an instance down while a key is busy: its leased units are available to other instances at once.
func TestShutdownRefundsLeases(t *testing.T) { overStores(t, testShutdownRefundsLeases) }

func testShutdownRefundsLeases(t *testing.T, store string) {
	one, other := start(t, store), start(t, store)
	var leased atomic.Int64
	admitted := runCallers(t, quota/2, viaJSON(t, one, "default", "hot", &leased))
	out := metricsOf(t, one)["units_out"]
	one.Stop(t)
	if leased.Load() == 0 {
		t.Fatal("no decision had the flag leased")
	}
	if out == 0 {
		t.Log("no units were leased when the instance stopped")
	}
	if got := remaining(t, other, "hot"); got != quota-admitted {
		t.Errorf("%d remain after %d of %d were admitted and %v were leased, want %d", got, admitted, quota, out, quota-admitted)
	}
	if one.Log.Has("could not be returned") {
		t.Errorf("logged %s", one.Log)
	}
}
