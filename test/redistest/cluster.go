package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/test/kit"
)

// Nodes are the nodes of a cluster.
type Nodes []*Node

const (
	masters = 3
	slots   = 16_384
)

// Cluster starts a cluster of three masters, which come first, and a replica of each, in the same order. All six agree
// that it is complete when Cluster returns. It never uses REDIS_URL.
func Cluster(t testing.TB) Nodes {
	t.Helper()
	var nodes Nodes
	for range 2 * masters {
		nodes = append(nodes, newNode(t, true, nil, append(slices.Clone(inMemory),
			"cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000", "repl-diskless-sync-delay 0")))
	}
	for i, node := range nodes {
		node.mustCommand("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masters {
			node.mustCommand("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slots*i/masters), strconv.Itoa(slots*(i+1)/masters-1))
		}
		if i > 0 {
			node.mustCommand("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(nodes[0].port))
		}
	}
	nodes.await("every node to know all others", func(info map[string]string) bool {
		return info["cluster_known_nodes"] == strconv.Itoa(len(nodes))
	})
	for i, node := range nodes[masters:] {
		id := nodes[i].mustCommand("CLUSTER", "MYID")
		node.must("its master to be known", func() error { // the other nodes may not have met it yet
			_, err := node.command("CLUSTER", "REPLICATE", id)
			return err
		})
	}
	nodes.await("the cluster to be complete", func(info map[string]string) bool {
		return info["cluster_state"] == "ok" && info["cluster_slots_ok"] == strconv.Itoa(slots) &&
			info["cluster_size"] == strconv.Itoa(masters)
	})
	for _, node := range nodes[masters:] {
		node.awaitLink()
	}
	nodes.awaitReplicasKnown()
	return nodes
}

// await waits until CLUSTER INFO of every node is as expected.
func (ns Nodes) await(what string, good func(info map[string]string) bool) {
	for _, node := range ns {
		node.t.Helper()
		node.must(what, func() error {
			info, err := node.command("CLUSTER", "INFO")
			if err == nil && !good(fields(info)) {
				err = fmt.Errorf("CLUSTER INFO: %s", info)
			}
			return err
		})
	}
}

// awaitReplicasKnown waits until every node knows which nodes are replicas, so that clients get the same answer from all of them.
func (ns Nodes) awaitReplicasKnown() {
	for _, node := range ns {
		node.t.Helper()
		node.must("the replicas to be known", func() error {
			text, err := node.command("CLUSTER", "NODES")
			if err == nil && (strings.Count(text, "slave") != masters || strings.Contains(text, "handshake")) {
				err = fmt.Errorf("CLUSTER NODES: %s", text)
			}
			return err
		})
	}
}

// Options returns the options of a client of the cluster.
func (ns Nodes) Options() rueidis.ClientOption {
	opts := rueidis.ClientOption{DisableCache: true}
	for _, node := range ns {
		opts.InitAddress = append(opts.InitAddress, node.Addr())
	}
	return opts
}

// Client returns a client of the cluster, which is closed with the test.
func (ns Nodes) Client(t testing.TB) rueidis.Client {
	t.Helper()
	return Client(t, ns.Options())
}

// must waits until something succeeds.
func (n *Node) must(what string, try func() error) {
	n.t.Helper()
	if err := kit.Retry(errEnded, try); err != nil {
		n.t.Fatalf("redistest: timed out waiting for %s: %v\n%s", what, err, n.log())
	}
}

// awaitLink waits until a replica has its master's data.
func (n *Node) awaitLink() {
	n.t.Helper()
	n.must("the replica to follow its master", func() error {
		info, err := n.command("INFO", "replication")
		if err == nil && fields(info)["master_link_status"] != "up" {
			err = fmt.Errorf("INFO replication: %s", info)
		}
		return err
	})
}

// fields parses lines of name:value.
func fields(info string) map[string]string {
	values := map[string]string{}
	for line := range strings.SplitSeq(info, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			values[name] = value
		}
	}
	return values
}
