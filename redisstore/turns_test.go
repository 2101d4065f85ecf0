package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// turnsConn records how many keys of a decision are sent together.
type turnsConn struct {
	cluster bool
	mu      sync.Mutex
	keys    []int
}

var errNoServer = errors.New("no server")

func (c *turnsConn) Run(_ context.Context, _, script string, calls []Call) {
	keys := 0
	for i := range calls {
		keys += len(calls[i].Keys)
		calls[i].Err = errNoServer
	}
	if script == slotsScript.sha { // asks for the nodes of a cluster, in the background
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, keys)
}

func (c *turnsConn) Cluster() bool { return c.cluster }

// What is sent together is bounded by its work: a server carries out in a row what it receives together.
func TestTurnsAreBoundedByWork(t *testing.T) {
	for _, c := range []struct {
		quota   int64
		cluster bool
		want    []int
	}{{10_000, false, []int{20, 20, 5}}, {10_000, true, []int{20, 20, 5}}, {100, false, []int{45}}, {100, true, []int{45}}} {
		limit := rule.Limit{Algorithm: rule.SlidingLog, Quota: c.quota, Window: 3600e6}
		limit, err := limit.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		bound := store.Bind("turns", "log", "log", limit)
		batch := make([]store.Request, 45)
		for i := range batch {
			batch[i] = store.Request{Charges: []store.Charge{{Limit: bound, Key: fmt.Sprint(i), Cost: 1}}, Answers: make([]rule.Answer, 1)}
		}
		conn := &turnsConn{cluster: c.cluster}
		s, err := NewWithConn(conn, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(context.Background(), batch); !errors.Is(err, errNoServer) {
			t.Errorf("got error %v", err)
		}
		if !slices.Equal(conn.keys, c.want) {
			t.Errorf("quota %d, cluster %v: keys sent together: %v, want %v", c.quota, c.cluster, conn.keys, c.want)
		}
	}
}
