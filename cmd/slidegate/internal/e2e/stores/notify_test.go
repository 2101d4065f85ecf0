package stores_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/notify"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestNotifications checks that each of many keys makes one event at a threshold, although three instances share its requests and it goes
// up and down or is settled by several at the same time, and that a webhook that fails now and then gets all of them, each under one ID.
func TestNotifications(t *testing.T) {
	for name, c := range map[string]struct {
		url  func() string
		keys int
	}{
		"Redis":      {func() string { return "redis://" + redistest.Server(t).Addr() }, 10_000},
		"PostgreSQL": {func() string { return pgtest.Start(t, "fsync = off").URL("slidegate_prefix=my_", "pool_max_conns=8") }, 2_000},
		"NATS":       {func() string { return natstest.Start(t) }, 2_000},
	} {
		t.Run(name, func(t *testing.T) {
			keys := c.keys
			if testing.Short() {
				keys = 500
			}
			testNotifications(t, c.url(), keys)
		})
	}
}

func testNotifications(t *testing.T, url string, keys int) {
	var mu sync.Mutex
	ids, byKey, requests := map[string]int{}, map[string]map[string]bool{}, 0
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e notify.Event
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &e); err != nil || e.ID != r.Header.Get("webhook-id") {
			t.Errorf("got %s with the ID %q, %v", body, r.Header.Get("webhook-id"), err)
		}
		mu.Lock()
		defer mu.Unlock()
		if requests++; requests%7 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		ids[e.ID]++
		if byKey[e.Data.Key] == nil {
			byKey[e.Data.Key] = map[string]bool{}
		}
		byKey[e.Data.Key][e.ID] = true
	}))
	t.Cleanup(hook.Close)

	limit := slidegate.Limit{Quota: 10, Window: 24 * 3600e9}
	file := &config.File{Policies: []config.Policy{{Name: "api", Limits: []slidegate.Limit{limit}, Notify: []policy.Threshold{{Limit: limit, Percent: 80}}}}}
	var gates []*gate.Gate
	for range 3 {
		o := openConnected(t, url, patientOptions())
		n := notify.New(notify.Options{Store: o.Store, Webhook: notify.Webhook{URL: hook.URL, Secret: make([]byte, 32)}})
		t.Cleanup(func() { n.Close(ctx) })
		g, err := gate.New(file, o.Store, gate.Options{OnCrossed: n.Crossed})
		testkit.NoError(t, err)
		t.Cleanup(func() { testkit.NoError(t, g.Close()) })
		gates = append(gates, g)
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	const settled = 20 // keys of whose settlements, all at the same time, one crosses
	for key := range settled {
		for i := range 4 {
			workers.Go(func() {
				var r slidegate.Reservation
				_, err := gates[i%3].Do(ctx, gate.Reserve, gate.Request{Key: fmt.Sprint("settled ", key), Cost: 1, Reservation: &r})
				if err != nil {
					t.Error(err)
					return
				}
				used := []slidegate.Used{{Limit: gate.Label(&r.Charges[0].Limit), Cost: 3}}
				if _, err = gates[i%3].Do(ctx, gate.Settle, gate.Request{Reservation: &r, Used: used}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for range 32 {
		workers.Go(func() {
			for key := next.Add(1); key <= int64(keys); key = next.Add(1) {
				for i, step := range []struct {
					op   gate.Op
					cost int64
				}{{gate.Allow, 5}, {gate.Allow, 3}, {gate.Refund, 3}, {gate.Allow, 4}} {
					_, err := gates[(int(key)+i)%3].Do(ctx, step.op, gate.Request{Key: fmt.Sprint("key ", key), Cost: step.cost})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	workers.Wait()
	testkit.Eventually(t, "an event of each key", func() bool { mu.Lock(); defer mu.Unlock(); return len(byKey) == keys+settled })
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != keys+settled {
		t.Errorf("got %d IDs, want %d", len(ids), keys+settled)
	}
	for key, all := range byKey {
		if len(all) != 1 {
			t.Errorf("%s: got %d events, want 1", key, len(all))
		}
	}
}
