package natskv_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
)

var historyLength = flag.Duration("history", 9*time.Second, "how long the history is that is checked for one unit too many")

// Four processes call a cluster of three servers, each through a different server at first, while servers, including the leader, are
// killed and started again with what they had written, isolated from the others, and stopped. All answers are the rule's answers to
// the same requests in some order, in which unanswered requests are carried out or not: not one unit too many is ever admitted.
func TestHistory(t *testing.T) {
	t.Parallel()
	f := &faults{t: t, cluster: natstest.StartCluster(t, 3), done: map[string]int{}}
	seed := uint64(time.Now().UnixNano())
	f.random = rand.New(rand.NewPCG(seed, 0))
	r := &history.Recording{
		Processes: startWorkers(t, 4, "history", f.cluster.URL, 3), Seed: seed, Length: *historyLength, Faults: f.done,
		Disturb: func(_ []history.Task, end time.Time) { f.end = end; f.disturb() },
		Enough:  func() bool { return f.done["isolate the leader"] > 0 },
	}
	history.Verify(t, seed, r.Run(t))
}

// faults causes faults in a cluster, one at a time: it survives the loss of one server.
type faults struct {
	t       *testing.T
	cluster *natstest.Cluster
	random  *rand.Rand
	end     time.Time
	done    map[string]int
}

// disturb causes a fault, waits until the servers agree again, and repeats this until the end.
func (f *faults) disturb() {
	f.t.Helper()
	all := []string{"kill another", "isolate the leader", "kill the leader", "stop the leader", "isolate another", "shut down the leader"}
	for i := 0; f.pause(300, 900); i++ {
		name := all[f.random.IntN(len(all))]
		if i < len(all) {
			name = all[i]
		}
		leader, agreed := f.leader()
		if !agreed {
			return
		}
		f.done[name]++
		another := (leader + 1 + f.random.IntN(2)) % len(f.cluster.Nodes)
		switch name {
		case "kill another":
			f.kill(another)
		case "kill the leader":
			f.kill(leader)
		case "shut down the leader":
			f.cluster.Nodes[leader].Shutdown()
			f.pause(100, 500)
			f.cluster.Nodes[leader].Restart()
		case "isolate another":
			f.isolate(another)
		case "isolate the leader":
			f.isolate(leader)
		case "stop the leader": // for longer than the others wait for it
			f.cluster.Nodes[leader].Signal(syscall.SIGSTOP)
			f.pause(5_000, 10_000)
			f.cluster.Nodes[leader].Signal(syscall.SIGCONT)
		}
	}
}

func (f *faults) kill(i int) {
	f.t.Helper()
	f.cluster.Nodes[i].Kill()
	f.pause(0, 1_000)
	f.cluster.Nodes[i].Restart()
}

// isolate cuts a server off for about as long as the others need to choose another leader, or longer.
func (f *faults) isolate(i int) {
	f.t.Helper()
	f.cluster.Isolate(i)
	f.pause(5_000, 12_000)
	f.cluster.Rejoin(i)
}

// pause lets the processes work for some milliseconds, and reports whether time is left.
func (f *faults) pause(least, most int) bool {
	left := time.Until(f.end)
	<-time.After(min(left, time.Duration(least+f.random.IntN(most-least))*time.Millisecond))
	return time.Now().Before(f.end)
}

// catchUpWithin is how long a server may be behind before it is killed and started again, which makes it catch up.
const catchUpWithin = 10 * time.Second

// leader waits until all replicas are nearly up to date, so that the next fault leaves two of them, and returns the index of the
// leader. It returns false if that takes until the end.
func (f *faults) leader() (leader int, agreed bool) {
	f.t.Helper()
	conn := natstest.Connect(f.t, f.cluster.URL(0))
	defer conn.Close()
	js := kit.Must(jetstream.New(conn))(f.t)
	for begun := time.Now(); ; {
		leader, behind, err := f.state(js)
		switch {
		case err == nil && behind < 0:
			return leader, true
		case err == nil && time.Since(begun) > catchUpWithin:
			f.done["kill one that is behind"]++
			f.kill(behind)
			begun = time.Now()
		case !f.pause(20, 50):
			f.t.Logf("until the end the servers did not agree again: %v", err)
			return 0, false
		}
	}
}

// state returns the index of the leader, and of a server that is far behind, or -1. Every server is a little behind, since processes
// keep writing.
func (f *faults) state(js jetstream.JetStream) (leader, behind int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, bucketStream)
	if err != nil {
		return 0, 0, err
	}
	info := stream.CachedInfo().Cluster
	if info == nil || len(info.Replicas) != len(f.cluster.Nodes)-1 {
		return 0, 0, errors.New("replicas are missing")
	}
	leader, behind = f.cluster.Find(info.Leader), -1
	if leader < 0 {
		return 0, 0, errors.New("there is no leader")
	}
	for _, r := range info.Replicas {
		if r.Offline || r.Active > 3*time.Second || r.Lag > 1_000 {
			behind = f.cluster.Find(r.Name)
		}
	}
	return leader, behind, nil
}

// bucketStream is the stream of the bucket that engines have by default.
const bucketStream = "KV_slidegate"
