package memcached_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/memcachedtest"
	"github.com/slidegate/slidegate/test/workers"
)

var historyLength = flag.Duration("history", 4*time.Second, "how long the history is that is checked for one unit too many")

// Four processes call one server over connections that are slowed, stalled, cut and reset, while the server is killed and started
// again, which makes it forget everything. Between restarts, all answers are the rule's answers to the same requests in some order,
// in which unanswered requests are carried out or not: not one unit too many is ever admitted.
func TestHistory(t *testing.T) {
	t.Parallel()
	server := memcachedtest.Start(t)
	wire := faultproxy.New(t, server.Addr())
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	r := &history.Recording{
		Processes: workers.Start(t, 4, "history "+wire.Addr()), Seed: seed, Length: *historyLength, Faults: map[string]int{},
	}
	direct := newStore(t, openOnMachineClock(t, server.Client(t)), kvstore.Options{})
	var entries, units int64 // lost in restarts
	restart := func(order history.Task) {
		entries += server.Count("curr_items")
		units += kit.Must(history.Used(direct, order))(t)
		e := history.Event{Forget: true, Call: time.Now().UnixNano()}
		server.Restart()
		e.Return = time.Now().UnixNano()
		r.Forgets = append(r.Forgets, e)
	}
	r.Disturb = func(orders []history.Task, end time.Time) {
		history.Disturb(wire, func() { restart(orders[0]) }, random, r.Faults, end)
	}
	r.Enough = func() bool { return len(r.Forgets) > 0 }
	all := r.Run(t)
	t.Logf("%d restarts forgot %d entries, in which %d units were counted", len(r.Forgets), entries, units)
	history.Verify(t, seed, append(all, r.Forgets...))
}
