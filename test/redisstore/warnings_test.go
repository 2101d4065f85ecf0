package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{
		"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
	} {
		for _, most := range []string{"0", "64mb"} {
			t.Run(policy+" "+most, func(t *testing.T) {
				t.Parallel()
				server := redistest.Server(t, "maxmemory "+most, "maxmemory-policy "+policy, `rename-command CONFIG ""`)
				want := policy != "noeviction" && most != "0"
				for by, s := range clientsOf(t, server, "") {
					got, err := s.Warnings(context.Background())
					if err != nil || (len(got) == 1 && strings.Contains(got[0], policy)) != want || len(got) > 1 {
						t.Errorf("%s: got %q, %v; want a warning: %v", by, got, err, want)
					}
				}
			})
		}
	}
}

// Every node of a cluster is queried.
func TestWarningsOfACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	s := newStore(t, nodes.Client(t), redisstore.Options{})
	if got, err := s.Warnings(context.Background()); err != nil || len(got) != 0 {
		t.Errorf("got %q, %v; want no warning", got, err)
	}
	client := redistest.Client(t, rueidis.ClientOption{InitAddress: []string{nodes[1].Addr()}, DisableCache: true, ForceSingleClient: true})
	do(t, client, "CONFIG", "SET", "maxmemory", "64mb")
	do(t, client, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	if got, err := s.Warnings(context.Background()); err != nil || len(got) != 1 {
		t.Errorf("got %q, %v; want the warning of one node", got, err)
	}
}

func TestWarningsAreNotAllowed(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "user app on >word ~* +@all -info")
	for by, s := range clientsOf(t, server, "app") {
		if got, err := s.Warnings(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") {
			t.Errorf("%s: got %q, %v; want an error of redisstore", by, got, err)
		}
	}
}

// The warning has a reason: a server that evicts keys admits a refused key again, and one that does not evict never does.
func TestEviction(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"volatile-lru", "noeviction"} {
		server := redistest.Server(t, "maxmemory 4mb", "maxmemory-policy "+policy)
		client := server.Client(t)
		s := newStore(t, client, redisstore.Options{})
		limit := bind(t, "eviction", slidegate.Limit{Quota: 1, Window: time.Hour})
		victim := store.Charge{Limit: limit, Key: "victim", Cost: 1}
		apply(t, s, rule.Take, victim)
		full, again := false, false
		for i := 0; i < 400 && !full && !again; i++ {
			batch := make([]store.Request, 500)
			for j := range batch {
				batch[j] = store.Request{
					Charges: []store.Charge{{Limit: limit, Key: fmt.Sprint(i, "-", j), Cost: 1}}, Answers: make([]rule.Answer, 1),
				}
			}
			full = s.Apply(context.Background(), batch) != nil
			again = number(t, client, "EXISTS", nameOf(limit, "victim")) == 0
		}
		if again != (policy == "volatile-lru") || full == again {
			t.Errorf("%s: got the key evicted: %v; the store full: %v", policy, again, full)
		}
	}
}
