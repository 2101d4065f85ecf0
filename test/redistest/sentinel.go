package redistest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// MasterSet is the name of the master for sentinels.
const MasterSet = "gate"

// SentinelSet is a master and its replica, watched by three sentinels.
type SentinelSet struct {
	Master, Replica *Node // as they were at the start
	Sentinels       []*Node
}

// Sentinel starts a master, a replica and three sentinels, which let the replica take over when the master has not
// answered for 300 ms. The replica has the master's data, and all sentinels know one another and the replica, when
// Sentinel returns. It never uses REDIS_URL.
func Sentinel(t testing.TB) *SentinelSet {
	t.Helper()
	w := &SentinelSet{Master: newNode(t, false, nil, append(slices.Clone(inMemory), "repl-diskless-sync-delay 0"))}
	w.Replica = newNode(t, false, nil, append(slices.Clone(inMemory), "repl-diskless-sync-delay 0",
		fmt.Sprintf("replicaof 127.0.0.1 %d", w.Master.port)))
	w.Replica.awaitLink() // before the sentinels look for replicas, which they do only every ten seconds
	for range 3 {
		w.Sentinels = append(w.Sentinels, newNode(t, false, []string{"--sentinel"}, []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", MasterSet, w.Master.port),
			fmt.Sprintf("sentinel down-after-milliseconds %s 60000", MasterSet), // a busy machine is not an outage; see AwaitFailover
			fmt.Sprintf("sentinel failover-timeout %s 3000", MasterSet),
		}))
	}
	for _, sentinel := range w.Sentinels {
		sentinel.must("the sentinels to find one another", func() error {
			info, err := sentinel.command("INFO", "sentinel")
			if err == nil && !(strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=1,sentinels=3")) {
				err = fmt.Errorf("INFO sentinel: %s", info)
			}
			return err
		})
	}
	return w
}

// Options returns the options of a client that finds the master through the sentinels.
func (w *SentinelSet) Options() rueidis.ClientOption {
	opts := rueidis.ClientOption{DisableCache: true, Sentinel: rueidis.SentinelOption{MasterSet: MasterSet}}
	for _, sentinel := range w.Sentinels {
		opts.InitAddress = append(opts.InitAddress, sentinel.Addr())
	}
	return opts
}

// Client returns a client that follows the master, and is closed with the test.
func (w *SentinelSet) Client(t testing.TB) rueidis.Client {
	t.Helper()
	return Client(t, w.Options())
}

// AwaitFailover lets the sentinels notice that the master is gone, and waits until the replica is the master.
func (w *SentinelSet) AwaitFailover() {
	w.Replica.t.Helper()
	for _, sentinel := range w.Sentinels {
		sentinel.must("a sentinel to be quick", func() error {
			_, err := sentinel.command("SENTINEL", "SET", MasterSet, "down-after-milliseconds", "300")
			return err
		})
	}
	w.Replica.must("the replica to take over", func() error {
		info, err := w.Replica.command("INFO", "replication")
		if err == nil && fields(info)["role"] != "master" {
			err = fmt.Errorf("INFO replication: %s", info)
		}
		return err
	})
}
