package redisstore

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/redistest"
	"github.com/slidegate/slidegate/rule"
)

var historyLength = flag.Duration("history", 4*time.Second, "how long the history is that is checked for one unit too many")

// Four processes ask one server, each over a connection of its own that is slowed, cut and reset, while the server is killed
// and started again with what it had written. Whatever was answered is what the rule answers to the same requests in some
// order, with those that were not answered carried out or not: never is one unit too many admitted.
func TestHistory(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly yes", "appendfsync always")
	wire := redistest.Proxy(t, server.Addr())
	workers := startWorkers(t, 4, "history "+wire.Addr())
	seed := uint64(time.Now().UnixNano())
	end := time.Now().Add(*historyLength)
	keys := max(8, int(4*historyLength.Seconds())) // so that few requests for one key are left without an answer
	for i, w := range workers {
		order, err := json.Marshal(historyOrder{Seed: seed + uint64(i), Until: end.UnixNano(), Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		tell(t, []*worker{w}, string(order))
	}
	faults := disturb(t, server, wire, rand.New(rand.NewPCG(seed, 0)), end)
	var all []event
	for i, w := range workers {
		var events []event
		w.hear(t, &events)
		for j := range events {
			events[j].Client = i
		}
		all = append(all, events...)
	}
	if err := checkHistory(t, all); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	known, admitted := 0, 0
	for _, e := range all {
		if e.Known {
			known++
			if e.Op == slidegate.OpTake && e.Answer.Allowed {
				admitted++
			}
		}
	}
	t.Logf("%d requests, %d of them without an answer, %d admissions; %v", len(all), len(all)-known, admitted, faults)
	if known < 200 || admitted < 20 || known == len(all) || faults["kill"] == 0 {
		t.Error("too little happened for the history to mean something")
	}
	checkThatAliensAreFound(t, all)
}

// disturb does something bad about three times a second until the end, and then makes all good again.
func disturb(t *testing.T, server *redistest.Node, wire *redistest.Wire, random *rand.Rand, end time.Time) map[string]int {
	t.Helper()
	faults := map[string]int{}
	pause := func() bool { // lets the processes work; tells whether there is time for more
		left := time.Until(end)
		<-time.After(min(left, time.Duration(100+random.IntN(300))*time.Millisecond))
		return time.Now().Before(end)
	}
	names := []string{"kill", "cut", "slow", "mute", "reset"}
	for i := 0; pause(); i++ {
		name := names[random.IntN(len(names))]
		if i < len(names) {
			name = names[i]
		}
		faults[name]++
		switch name {
		case "kill":
			server.Kill()
			server.Restart()
		case "cut":
			wire.Cut()
			wire.Mend()
		case "slow":
			wire.Slow(30*time.Millisecond, 25*time.Millisecond)
			pause()
			wire.Heal()
		case "mute":
			wire.Mute(20 * time.Millisecond)
			pause()
			wire.Heal()
		case "reset":
			wire.Reset(5 * time.Millisecond)
			pause()
			wire.Heal()
		}
	}
	return faults
}

// aliens are changes of an answer that the check has to find. Each returns false where it changes nothing.
var aliens = map[string]func(e *event) bool{
	"an admission instead of a refusal": func(e *event) bool {
		if e.Op != slidegate.OpTake || e.Answer.Allowed || e.Log {
			return false
		}
		e.Answer.Allowed, e.Answer.Granted, e.Answer.RetryAfter = true, e.Cost, 0
		return true
	},
	"one unit less": func(e *event) bool {
		if e.Log || e.Answer.Remaining == 0 {
			return false
		}
		e.Answer.Remaining--
		return true
	},
	"a later time to retry": func(e *event) bool {
		if e.Log || e.Answer.RetryAfter == 0 {
			return false
		}
		e.Answer.RetryAfter++
		return true
	},
	"a log's quota once more": func(e *event) bool {
		if !e.Log || !e.Answer.Allowed {
			return false
		}
		e.Answer.Granted += historyLog.Quota
		return true
	},
}

// checkThatAliensAreFound changes what was answered to one request, which the check has to find.
func checkThatAliensAreFound(t *testing.T, events []event) {
	t.Helper()
	for name, change := range aliens {
		at := slices.IndexFunc(events, func(e event) bool { return e.Known && change(&e) })
		if at < 0 {
			t.Errorf("nothing in the history to change: %s", name)
			continue
		}
		changed := slices.Clone(events)
		change(&changed[at])
		if checkHistory(t, beginning(changed, changed[at])) == nil {
			t.Errorf("the check does not find %s: %+v", name, changed[at])
		}
	}
}

// beginning returns what was asked about the key of one request until that was answered. To see that no order explains a
// longer history can take the check very long.
func beginning(events []event, last event) (kept []event) {
	for _, e := range events {
		if e.Key == last.Key && e.Log == last.Log && e.Call <= last.Return {
			kept = append(kept, e)
		}
	}
	return kept
}

// The model itself, where a request was not answered: it may explain what was seen afterwards, and nothing else may.
func TestHistoryModel(t *testing.T) {
	const second = 1_000_000 // of time in microseconds; clocks of events are in nanoseconds
	l := bind(t, "history", historyWindow).Rule()
	base := rule.Micros(1_767_000_000 * second)
	at := func(after rule.Micros) int64 { return (base + after) * 1_000 }
	answerTo := func(taken int64, after rule.Micros, cost int64) slidegate.Answer { // with so much taken at base
		var s rule.State
		if taken > 0 {
			l.TakeOne(&s, base, taken)
		}
		a, _ := l.TakeOne(&s, base+after, cost)
		return a
	}
	lost := event{Op: slidegate.OpTake, Cost: 5, Call: at(0), Return: at(1_000)}
	take := event{Op: slidegate.OpTake, Cost: 3, Call: at(2_000), Return: at(4_000), Known: true}
	for _, c := range []struct {
		name   string
		events []event
		taken  int64
		fine   bool
	}{
		{"not carried out", []event{lost}, 0, true},
		{"carried out", []event{lost}, 5, true},
		{"carried out twice", []event{lost}, 10, false},
		{"two of them, both", []event{lost, lost}, 10, true},
		{"two of them, one", []event{lost, lost}, 5, true},
		{"out of nothing", nil, 5, false},
	} {
		take.Answer = answerTo(c.taken, 3_000, 3)
		if err := checkHistory(t, append(c.events, take)); (err == nil) != c.fine {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	later := take // a request that was lost can be carried out after others that were asked later
	later.Call, later.Return = at(300_000), at(302_000)
	take.Answer = answerTo(0, 3_000, 3)
	for _, part := range []rule.Micros{3_500, 260_000} { // in the same part as take, in the next one
		var s rule.State
		l.TakeOne(&s, base+3_000, 3)
		l.TakeOne(&s, base+part, 5)
		later.Answer, _ = l.TakeOne(&s, base+301_000, 3)
		if err := checkHistory(t, []event{lost, take, later}); err != nil {
			t.Errorf("carried out at %d: %v", part, err)
		}
	}
}
