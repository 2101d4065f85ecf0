package redisstore_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/workers"
)

var historyLength = flag.Duration("history", 4*time.Second, "length of the history that is checked for one unit too many")

// Four processes call one server, over connections that are slowed, stalled, cut and reset, while the server is killed
// and started again with what it had written. All answers are the rule's answers to the same requests in some order,
// in which unanswered requests are carried out or not: not one unit too many is ever admitted.
func TestHistory(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly yes", "appendfsync always")
	wire := faultproxy.New(t, server.Addr())
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	r := &history.Recording{
		Processes: workers.Start(t, 4, "history "+wire.Addr()), Seed: seed, Length: *historyLength, Faults: map[string]int{},
	}
	r.Disturb = func(_ []history.Task, end time.Time) { history.Disturb(wire, server.Restart, random, r.Faults, end) }
	r.Enough = func() bool { return r.Faults["kill"] > 0 }
	history.Verify(t, seed, r.Run(t))
}
