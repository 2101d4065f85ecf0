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
	processes := workers.Start(t, 4, "history "+wire.Addr())
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	faults := map[string]int{}
	var all []history.Event
	for start, stretch := time.Now(), 0; ; stretch++ { // a busy machine may need several intervals until enough has happened
		end := time.Now().Add(*historyLength)
		for i, order := range history.Tasks(len(processes), stretch, seed, *historyLength, end) {
			processes[i].Send(t, order)
		}
		history.Disturb(wire, server.Restart, random, faults, end)
		all = append(all, history.Merge(workers.ReceiveAll[[]history.Event](t, processes))...)
		s := history.Summarize(all)
		if s.Answered >= 200 && s.Admitted >= 20 && s.Answered < s.Requests && faults["kill"] > 0 && history.AllowsPlanting(all) {
			t.Logf("%+v; %v", s, faults)
			break
		}
		if time.Since(start) > *historyLength+time.Minute {
			t.Fatalf("too little happened for the history to be meaningful: %+v; %v", s, faults)
		}
	}
	history.Verify(t, seed, all)
}
