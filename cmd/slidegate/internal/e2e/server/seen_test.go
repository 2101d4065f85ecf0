package server_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// documentOf returns /v1/seen of an instance.
func documentOf(t *testing.T, s *servicetest.Service) (d seen.Document) {
	t.Helper()
	got := s.Send(t, "admin", "GET", "/v1/seen?n=50", "")
	if err := json.Unmarshal([]byte(got.Body), &d); err != nil || got.Status != http.StatusOK {
		t.Fatalf("got %d %s, %v", got.Status, got.Body, err)
	}
	return d
}

// startInstances starts three instances over a store, and waits until they decide by it.
func startInstances(t *testing.T, url string) (all []*servicetest.Service) {
	for range 3 {
		s := servicetest.Start(t, "store: "+url+"\nstore_timeout: 5s\npolicies: {api: {limits: [5/1h]}}\n", nil)
		testkit.Eventually(t, "the instance reaches its store", func() bool { return s.Send(t, "admin", "GET", "/readyz?require=store", "").Status == 200 })
		all = append(all, s)
	}
	return all
}

// TestSeenByAllInstances: after a look, any of three instances shows what the clients of all three got, exactly since they have few keys,
// and the text of a key that only another one has seen.
func TestSeenByAllInstances(t *testing.T) {
	for name, url := range map[string]func() string{
		"Redis":      func() string { return "redis://" + redistest.Server(t).Addr() },
		"PostgreSQL": func() string { return pgtest.Start(t, "fsync = off").URL() },
		"NATS":       func() string { return natstest.Start(t) },
		"Redis Cluster": func() string {
			var addresses []string
			for _, node := range redistest.Cluster(t) {
				addresses = append(addresses, node.Addr())
			}
			return "redis+cluster://" + strings.Join(addresses, ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			instances := startInstances(t, url())
			want := map[string][2]int64{}
			for i := range 300 {
				key := fmt.Sprint("client", rand.IntN(20))
				status := instances[i%3].Send(t, "http", "POST", "/v1/allow", `{"key":"`+key+`"}`).Status
				n := want[key]
				n[min(status/429, 1)]++
				want[key] = n
			}
			for range 7 {
				instances[2].Send(t, "http", "POST", "/v1/allow", `{"key":"only here"}`)
			}
			want["only here"] = [2]int64{5, 2}
			d := documentOf(t, instances[0])
			if d.Scope != "all" || len(d.Instances) != 3 || len(d.Policies) != 1 {
				t.Fatalf("got %s %q, %d instances, %v", d.Scope, d.Why, len(d.Instances), d.Policies)
			}
			refused, allAdmitted := 0, int64(0)
			for _, n := range want {
				refused += min(int(n[1]), 1)
				allAdmitted += n[0]
			}
			list := d.Keys["5"].Refused
			if len(list) != refused {
				t.Errorf("got %d refused keys, want %d", len(list), refused)
			}
			for _, k := range list {
				got := instances[0].Send(t, "admin", "POST", "/v1/seen/key", `{"policy":"api","id":"`+k.ID+`"}`)
				var text struct{ Key string }
				if err := json.Unmarshal([]byte(got.Body), &text); err != nil || got.Status != http.StatusOK {
					t.Fatalf("the key %s: got %d %s", k.ID, got.Status, got.Body)
				}
				if n := want[text.Key]; k.AtLeast || n != [2]int64{k.Admitted, k.Refused} || text.Key == "only here" && len(k.Instances) != 1 {
					t.Errorf("%s: got %+v, want exactly %v", text.Key, k, n)
				}
			}
			var admitted, sum int64
			for _, m := range d.Policies[0].Minutes {
				admitted, sum = admitted+m.Admitted, sum+m.Admitted+m.Refused
			}
			if sum != 307 || admitted != allAdmitted {
				t.Errorf("got %d decisions, %d admitted, want 307 and %d", sum, admitted, allAdmitted)
			}
		})
	}
}

// TestSeenWhileTheStoreIsAway: an instance shows itself and why, and all of them when the store is back.
func TestSeenWhileTheStoreIsAway(t *testing.T) {
	node := redistest.Server(t)
	instances := startInstances(t, "redis://"+node.Addr())
	if d := documentOf(t, instances[0]); len(d.Instances) != 3 {
		t.Fatalf("got %+v, want three", d.Instances)
	}
	node.Kill()
	testkit.Eventually(t, "it shows itself alone", func() bool {
		d := documentOf(t, instances[0])
		return d.Scope == "this" && strings.Contains(d.Why, "the store does not answer") && len(d.Instances) == 1 && d.Instances[0].WithoutStore
	})
	node.Restart()
	testkit.Eventually(t, "it shows all", func() bool {
		d := documentOf(t, instances[0])
		return d.Scope == "all" && len(d.Instances) == 3 && d.Instances[1].Alive && d.Instances[2].Alive
	})
}
