package natsembed_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/kvstore/natsembed"
	"github.com/slidegate/slidegate/test/kit"
)

// members are the processes of a cluster, each with a disk and a log of its own.
type members struct {
	options  []natsembed.Options
	servers  []*natsembed.Server
	limiters []*slidegate.Limiter
	disks    []*disk
	logs     []*lines
}

func startMembers(t *testing.T, n int) *members {
	t.Helper()
	var routes []string
	for range n {
		routes = append(routes, testkit.FreeAddress(t))
	}
	m := &members{servers: make([]*natsembed.Server, n), limiters: make([]*slidegate.Limiter, n)}
	for i := range n {
		m.disks, m.logs = append(m.disks, mountDisk(t, "8m")), append(m.logs, &lines{})
		m.options = append(m.options, natsembed.Options{
			Dir: filepath.Join(m.disks[i].dir, "nats"), Route: routes[i], Cluster: routes, Logger: slog.New(slog.NewTextHandler(m.logs[i], nil)),
		})
	}
	return m
}

// start starts a member; it does not wait for the others.
func (m *members) start(t *testing.T, i int) {
	t.Helper()
	m.servers[i] = kit.Must(natsembed.Start(m.options[i]))(t)
	t.Cleanup(m.servers[i].Close)
}

// leader returns the member that leads the bucket.
func (m *members) leader(t *testing.T) (leader int) {
	t.Helper()
	conn := kit.Must(m.servers[0].Connect())(t)
	defer conn.Close()
	js := kit.Must(jetstream.New(conn))(t)
	kit.Eventually(t, "a leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, "KV_slidegate")
		if err != nil {
			return false
		}
		for leader = range m.servers {
			if m.servers[leader].Name() == stream.CachedInfo().Cluster.Leader {
				return true
			}
		}
		return false
	})
	return leader
}

// While the disk of one member of three is full, the others decide, also for its process. When there is space again, it is a member
// as before. The first one to fail is the leader, the second is not.
func TestFullDiskOfOneMember(t *testing.T) {
	t.Parallel()
	m, counts := startMembers(t, 3), ledger{}
	for i := range m.servers {
		m.start(t, i)
	}
	for i := range m.servers {
		m.limiters[i] = newLimiter(t, m.servers[i], len(m.servers))
	}
	chargeBy := func(i int) {
		t.Helper()
		begun := time.Now()
		if err := kit.Retry(nil, func() error { return counts.charge(t, m.limiters[i], fmt.Sprint("key ", i)) }); err != nil {
			t.Fatalf("member %d: %v", i, err)
		}
		t.Logf("member %d charged after %v", i, time.Since(begun).Round(time.Millisecond))
	}
	for round := range 2 {
		full := (m.leader(t) + round) % len(m.servers)
		other := (full + 1) % len(m.servers)
		log := m.logs[full]
		outages := log.count(canWrite)
		m.disks[full].fill(t)
		kit.Eventually(t, "a write error", func() bool {
			_ = counts.charge(t, m.limiters[full], "key")
			return log.count(cannotWrite) > outages
		})
		for i := range m.servers {
			chargeBy(i)
		}
		if log.count(canWrite) != outages {
			t.Errorf("round %d: the server returned while its disk was full", round)
		}
		m.disks[full].free(t)
		freed := time.Now()
		kit.Eventually(t, "the server's return", func() bool { return log.count(canWrite) > outages })
		t.Logf("round %d: member %d returned after %v", round, full, time.Since(freed).Round(time.Millisecond))
		m.servers[other].Close() // so that the one that returned is needed for a majority
		chargeBy(full)
		counts.check(t, m.limiters[full])
		m.start(t, other)
		m.limiters[other] = newLimiter(t, m.servers[other], len(m.servers))
	}
}
