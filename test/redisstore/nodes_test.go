package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// Keys have the number of their node. When a node has failed and its replica has taken over, they have another.
func TestNodesOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	other := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Options().InitAddress})
	t.Cleanup(func() { other.Close() })
	stores := map[string]*redisstore.Store{
		"rueidis":  newStore(t, cluster.Client(t), redisstore.Options{}),
		"go-redis": kit.Must(goredis.New(other, redisstore.Options{}))(t),
	}
	client, limit := cluster.Client(t), bind(t, "nodes", hourly)
	const keys = 60
	owner := func(key string) int { // the index of the master, which have equal shares in order
		return int(number(t, client, "CLUSTER", "KEYSLOT", key) * 3 / 16_384)
	}
	before := map[string][3]int{}
	var sample [3]string // a key of each master
	for by, s := range stores {
		kit.Eventually(t, "the nodes to be known", func() bool { return s.Node(limit, "", "key") != 0 })
		var of [3]int
		for i := range keys {
			key := fmt.Sprint("key-", i)
			sample[owner(key)] = key
			if of[owner(key)] == 0 {
				of[owner(key)] = s.Node(limit, "", key)
			}
			if alone, grouped := s.Node(limit, "", key), s.Node(limit, key, "member"); alone != of[owner(key)] || grouped != alone {
				t.Errorf("%s, %s: got node %d, in a group %d, want %d", by, key, alone, grouped, of[owner(key)])
			}
		}
		if of[0] == of[1] || of[1] == of[2] || of[0] == of[2] || of[0]*of[1]*of[2] == 0 {
			t.Errorf("%s: got nodes %d, want three", by, of)
		}
		before[by] = of
	}
	cluster[0].Kill()
	s := stores["rueidis"]
	kit.Eventually(t, "the replica to take over", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := tryApply(ctx, s, rule.Take, store.Charge{Limit: limit, Key: sample[0], Cost: 1})
		return err == nil && s.Node(limit, "", sample[0]) != before["rueidis"][0]
	})
	checkMoved(t, "rueidis", s, limit, before["rueidis"], sample)
}

// checkMoved checks that the keys of the first node have a new number, and others do not.
func checkMoved(t *testing.T, by string, s *redisstore.Store, limit *store.Limit, before [3]int, keys [3]string) {
	t.Helper()
	for i := 1; i < 3; i++ {
		if got := s.Node(limit, "", keys[i]); got != before[i] {
			t.Errorf("%s: a key of another node has node %d, want still %d", by, got, before[i])
		}
	}
	if got := s.Node(limit, "", keys[0]); got == before[1] || got == before[2] || got == 0 {
		t.Errorf("%s: the keys of the node that failed have node %d, want a new one", by, got)
	}
}

// A server that is not a cluster has one node.
func TestNodeOfOneServer(t *testing.T) {
	t.Parallel()
	s := newStore(t, redistest.Server(t).Client(t), redisstore.Options{})
	limit := bind(t, "nodes", hourly)
	apply(t, s, rule.Take, store.Charge{Limit: limit, Key: "key", Cost: 1})
	if got := s.Node(limit, "", "key"); got != 0 {
		t.Errorf("got node %d, want 0", got)
	}
}

var _ store.Nodes = (*redisstore.Store)(nil)
