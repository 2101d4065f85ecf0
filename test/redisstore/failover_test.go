package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// A replica that takes over may not have what the master admitted last: Redis does not wait for replicas. The excess is
// exactly what was lost.
func TestFailoverOvershoot(t *testing.T) {
	t.Parallel()
	const quota, before, lost = 100, 40, 25
	watched := redistest.Sentinel(t)
	s := newStore(t, watched.Client(t), redisstore.Options{})
	master, replica := watched.Master.Client(t), watched.Replica.Client(t)
	limit := slidegate.Limit{Name: "hourly", Quota: quota, Window: time.Hour, Algorithm: slidegate.SlidingLog}
	bound := bind(t, "failover", limit)
	charge := store.Charge{Limit: bound, Key: "key", Cost: 1}
	admitted := 0
	take := func(n int) {
		for range n {
			if a := apply(t, s, rule.Take, charge); a.Allowed {
				admitted++
			}
		}
	}
	take(before)
	name := nameOf(bound, "key")
	kit.Eventually(t, "the replica to have it all", func() bool {
		return text(t, replica, "DUMP", name) == text(t, master, "DUMP", name)
	})
	// The replica is pointed to a master that does not exist. It misses what is admitted from now on.
	do(t, replica, "REPLICAOF", "127.0.0.1", deadPort(t))
	take(lost)
	watched.Master.Kill()
	watched.AwaitFailover()
	kit.Eventually(t, "the store to work again", func() bool {
		_, err := tryApply(context.Background(), s, rule.Peek, charge)
		return err == nil
	})
	take(quota)
	over := admitted - quota
	t.Logf("%d units were admitted that the replica did not have; with those after the failover %d of a quota of %d: %d too many",
		lost, admitted, quota, over)
	if over < 0 || over > lost {
		t.Errorf("got %d too many, and only %d were lost", over, lost)
	}
}

// deadPort returns a port on which nothing listens.
func deadPort(t *testing.T) string {
	t.Helper()
	wire := faultproxy.New(t, "127.0.0.1:1")
	wire.Cut()
	_, port, _ := strings.Cut(wire.Addr(), ":")
	return port
}
