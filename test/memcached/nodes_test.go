package memcached_test

import (
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/memcachedtest"
)

var _ store.Nodes = (*kvstore.Store)(nil)

// Keys have the number of their server: if one fails, requests fail for its keys, and not for others.
func TestNodesOfServers(t *testing.T) {
	t.Parallel()
	servers := []*memcachedtest.Server{memcachedtest.Start(t), memcachedtest.Start(t)}
	list := new(memcache.ServerList)
	if err := list.SetServers(servers[0].Addr(), servers[1].Addr()); err != nil {
		t.Fatal(err)
	}
	client := memcache.NewFromSelector(list)
	t.Cleanup(func() { client.Close() })
	engine := kit.Must(memcached.New(t.Context(), client, memcached.Options{MachineClock: true, Servers: list}))(t)
	st := newStore(t, engine, kvstore.Options{})
	servers[1].Kill()
	checkNodes(t, st)
	single := newStore(t, openOnMachineClock(t, servers[0].Client(t)), kvstore.Options{})
	if got := single.Node(nodesLimit(t), "", "key"); got != 0 {
		t.Errorf("one server: got node %d, want 0", got)
	}
}

func nodesLimit(t *testing.T) *store.Limit {
	return bind(t, slidegate.Limit{Name: "limit", Quota: 1000, Window: time.Hour})
}

// checkNodes checks that a store with two servers, the second of which is down, answers for the keys of the first.
func checkNodes(t *testing.T, st store.Store) {
	t.Helper()
	nodes := st.(store.Nodes)
	limit := nodesLimit(t)
	var down, up [2]int // by node
	for i := range 100 {
		key := keyOf(i)
		node := nodes.Node(limit, "", key)
		_, err := take(t.Context(), st, limit, key, 1)
		switch {
		case err == nil:
			up[node]++
		case storetest.Marks(err) == "down undone":
			down[node]++
		default:
			t.Errorf("got %q of %v", storetest.Marks(err), err)
		}
		if node != nodes.Node(limit, "", key) || nodes.Node(limit, key, "x") != nodes.Node(limit, key, "y") {
			t.Error("the node of a key, or of a group, is not always the same")
		}
	}
	if up[0] < 20 || down[1] < 20 || up[1] != 0 || down[0] != 0 {
		t.Errorf("got %d answers and %d errors, by node; want answers of the first only and errors of the second", up, down)
	}
}
