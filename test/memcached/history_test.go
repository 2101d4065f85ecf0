package memcached_test

import (
	"flag"
	"math/rand/v2"
	"slices"
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
	processes := workers.Start(t, 4, "history "+wire.Addr())
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	faults := map[string]int{}
	direct := newStore(t, openOnMachineClock(t, server.Client(t)), kvstore.Options{})
	var all, restarts []history.Event
	var orders []history.Task
	var entries, units int64 // lost in restarts
	restart := func() {
		entries += server.Count("curr_items")
		units += kit.Must(history.Used(direct, orders[0]))(t)
		e := history.Event{Forget: true, Call: time.Now().UnixNano()}
		server.Restart()
		e.Return = time.Now().UnixNano()
		restarts = append(restarts, e)
	}
	for start, stretch := time.Now(), 0; ; stretch++ { // a busy machine may need several intervals until enough has happened
		end := time.Now().Add(*historyLength)
		orders = history.Tasks(len(processes), stretch, seed, *historyLength, end)
		for i, order := range orders {
			processes[i].Send(t, order)
		}
		history.Disturb(wire, restart, random, faults, end)
		all = append(all, history.Merge(workers.ReceiveAll[[]history.Event](t, processes))...)
		s := history.Summarize(all)
		if s.Answered >= 200 && s.Admitted >= 20 && s.Answered < s.Requests && len(restarts) > 0 && history.AllowsPlanting(append(slices.Clip(all), restarts...)) {
			t.Logf("%+v; %v", s, faults)
			break
		}
		if time.Since(start) > *historyLength+time.Minute {
			t.Fatalf("too little happened for the history to be meaningful: %+v; %v", s, faults)
		}
	}
	t.Logf("%d restarts forgot %d entries, in which %d units were counted", len(restarts), entries, units)
	history.Verify(t, seed, append(all, restarts...))
}
