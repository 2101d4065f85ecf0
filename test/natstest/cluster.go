package natstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/kit"
)

// Cluster is a set of servers in separate processes that can be isolated from one another. It is not safe for concurrent use, except
// for URL. The zero value is not usable; call StartCluster.
type Cluster struct {
	Nodes []*Node
	t     testing.TB
	wires [][]*faultproxy.Proxy // from one node to another; nil from a node to itself
}

// StartCluster starts a cluster that ends with the test, and waits until JetStream works.
func StartCluster(t testing.TB, size int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	t.Cleanup(c.end)
	var err error
	for range 3 { // another process may take a port first
		if err = c.start(size); err == nil {
			return c
		}
		c.end()
	}
	t.Fatalf("natstest: the cluster does not start: %v", err)
	return nil
}

func (c *Cluster) start(size int) (err error) {
	c.Nodes, c.wires = make([]*Node, size), make([][]*faultproxy.Proxy, size)
	for i := range c.Nodes {
		n := &Node{t: c.t, settings: settings{Name: fmt.Sprintf("node-%d-of-%d", i, size), Dir: c.t.TempDir()}}
		if n.settings.Port, err = testkit.FreePort(); err != nil {
			return err
		}
		if n.settings.Route, err = testkit.FreePort(); err != nil {
			return err
		}
		c.Nodes[i] = n
	}
	for i, n := range c.Nodes {
		c.wires[i] = make([]*faultproxy.Proxy, size)
		for j, other := range c.Nodes {
			address := fmt.Sprintf("127.0.0.1:%d", other.settings.Route)
			if i != j {
				c.wires[i][j] = faultproxy.New(c.t, address)
				address = c.wires[i][j].Addr()
			}
			n.settings.Routes = append(n.settings.Routes, address)
		}
		if err := n.launch(); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := n.awaitReady(); err != nil {
			return err
		}
	}
	return c.awaitJetStream()
}

// awaitJetStream waits until the servers have a leader.
func (c *Cluster) awaitJetStream() error {
	conn, err := nats.Connect(c.URL(0))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return kit.Retry(nil, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := js.AccountInfo(ctx)
		return err
	})
}

func (c *Cluster) end() {
	for _, n := range c.Nodes {
		if n != nil {
			n.end()
		}
	}
}

// URL returns the addresses for a client, which tries the servers in turn, beginning with first.
func (c *Cluster) URL(first int) string {
	urls := make([]string, len(c.Nodes))
	for i := range urls {
		urls[i] = c.Nodes[(first+i)%len(urls)].URL()
	}
	return strings.Join(urls, ",")
}

// Isolate cuts the connections of a server to the others. Clients can still reach it.
func (c *Cluster) Isolate(i int) {
	for j := range c.Nodes {
		if j != i {
			c.wires[i][j].Cut()
			c.wires[j][i].Cut()
		}
	}
}

// Rejoin lets a server reach the others again after Isolate.
func (c *Cluster) Rejoin(i int) {
	c.t.Helper()
	for j := range c.Nodes {
		if j != i {
			c.wires[i][j].Mend()
			c.wires[j][i].Mend()
		}
	}
}

// Leader returns the index of the server that leads a stream, according to the server that js is connected to.
func (c *Cluster) Leader(js jetstream.JetStream, stream string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	if info := s.CachedInfo().Cluster; info != nil && c.Find(info.Leader) >= 0 {
		return c.Find(info.Leader), nil
	}
	return 0, fmt.Errorf("stream %s has no leader", stream)
}

// Find returns the index of the server with a name, or -1.
func (c *Cluster) Find(name string) int {
	return slices.IndexFunc(c.Nodes, func(n *Node) bool { return n.Name() == name })
}
