package lease_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/workers"
)

var leaseLength = flag.Duration("leases", 4*time.Second, "how long processes spend leases while they are checked for one unit too many")

const processes = 3

// fleet is a set of processes that call one server, each over its own wire.
type fleet struct {
	t      *testing.T
	server server
	seed   uint64
	until  time.Time

	wires    []*faultproxy.Proxy
	workers  []*workers.Worker
	journals []string // of all processes that ever ran
	current  []int    // the index of each process's current journal
}

// startFleet starts processes, which then send requests for some time.
func startFleet(t *testing.T, s server, n int, length time.Duration) *fleet {
	t.Helper()
	f := &fleet{t: t, server: s, seed: uint64(time.Now().UnixNano()), current: make([]int, n), workers: make([]*workers.Worker, n)}
	for i := range n {
		f.wires = append(f.wires, faultproxy.New(t, s.addr))
		f.start(i)
	}
	f.until = time.Now().Add(length)
	for i := range n {
		f.sendOrder(i)
	}
	return f
}

// start starts a process, or replaces one that has ended.
func (f *fleet) start(i int) {
	f.t.Helper()
	f.current[i] = len(f.journals)
	f.journals = append(f.journals, filepath.Join(f.t.TempDir(), "journal"))
	text, err := json.Marshal(job{Place: f.server.via(f.wires[i].Addr()), Journal: f.journals[f.current[i]]})
	if err != nil {
		f.t.Fatal(err)
	}
	f.workers[i] = workers.Start(f.t, 1, string(text))[0]
}

func (f *fleet) sendOrder(i int) {
	f.t.Helper()
	f.workers[i].Send(f.t, order{Seed: f.seed + uint64(f.current[i]), Until: f.until.UnixNano()})
}

// finish waits until all processes have returned their leases, and returns what all recorded. What callers of the
// processes that lived to the end got must equal what was recorded.
func (f *fleet) finish() (all []record) {
	f.t.Helper()
	outcomes := workers.ReceiveAll[outcome](f.t, f.workers)
	all = f.records()
	for i, done := range outcomes {
		records := map[string]int64{}
		for _, r := range all {
			if r.Process == f.current[i] && (r.What == spent || r.What == direct) {
				records[r.Limit] += r.Units
			}
		}
		f.t.Logf("process %d: admitted %v, %d not answered; %+v", f.current[i], done.Admitted, done.Failed, done.Stats)
		for limit, units := range done.Admitted {
			if records[limit] != units {
				f.t.Errorf("process %d: the callers got %d units of %s, and %d were recorded", f.current[i], units, limit, records[limit])
			}
		}
		if done.Stats.Outstanding != 0 {
			f.t.Errorf("process %d: got %d units leased after Close", f.current[i], done.Stats.Outstanding)
		}
	}
	return all
}

// records returns what all processes have recorded so far.
func (f *fleet) records() (all []record) {
	f.t.Helper()
	for i, path := range f.journals {
		all = append(all, read(f.t, path, i)...)
	}
	return all
}

// Three processes of 16 callers request one key. One is stopped across the end of a part, one is killed and started
// again, and the server's replies are delayed, lost or cut off. By the clock readings that spends were checked against,
// no window has more than the quota, net of what callers returned. On a busy machine the callers may not come near the
// quota, so that one unit too many would not be detected; then the test tries again.
func TestNoWindowExceedsTheQuota(t *testing.T) {
	const rounds = 5
	overServers(t, func(t *testing.T, s server) {
		var idle []string // limits whose quota was not nearly used up
		for range rounds {
			f := startFleet(t, s, processes, *leaseLength)
			faults := f.disturb()
			all := f.finish()
			idle = nil
			for _, limit := range []slidegate.Limit{narrow, wide, loose} {
				if !verify(t, f.seed, all, limit, s.skew) {
					idle = append(idle, limit.Name)
				}
			}
			t.Log(faults)
			for _, name := range []string{"stop", "kill", "slow"} {
				if faults[name] == 0 {
					idle = append(idle, name)
				}
			}
			if len(idle) == 0 || t.Failed() {
				return
			}
		}
		t.Errorf("in %d rounds some quotas were never nearly used up, or some faults never happened: %v", rounds, idle)
	})
}

// verify fails a test in which more was admitted than the quota in some window. It reports whether the quota was nearly used
// up, so that one unit too many would have been detected.
func verify(t *testing.T, seed uint64, all []record, limit slidegate.Limit, skew time.Duration) bool {
	t.Helper()
	for _, err := range []error{checkLeases(all, limit), timeline{}.checkEnds(all, limit, skew)} {
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	found := timeline{}.admissions(all, limit.Name)
	window, parted := maxInWindow(found, limit.Window), maxInParts(found, limit)
	if limit == loose {
		window = parted // records of returned units have the part, but not the time
	}
	t.Logf("%s: at most %d in any window, %d in its parts, of a quota of %d; %s", limit.Name, window, parted, limit.Quota, summary(all, limit))
	if parted > limit.Quota || window > limit.Quota {
		t.Errorf("seed %d: %s: %d were admitted in one window and %d in its parts, of a quota of %d", seed, limit.Name, window, parted, limit.Quota)
	}
	return parted >= limit.Quota*9/10
}

// summary describes how much was spent from leases.
func summary(all []record, limit slidegate.Limit) string {
	text := ""
	for _, what := range []eventKind{granted, spent, returning, returned, direct, canceled} {
		text += fmt.Sprintf("%s %d ", what, sum(all, limit.Name, what))
	}
	return text
}

// sum returns the units of all records of one kind.
func sum(all []record, limit string, what eventKind) (units int64) {
	for _, r := range all {
		if r.Limit == limit && r.What == what {
			units += r.Units
		}
	}
	return units
}

// disturb causes a fault several times a second until the end, and then heals all. It returns the faults.
func (f *fleet) disturb() (faults map[string]int) {
	random := rand.New(rand.NewPCG(f.seed, 0))
	pause := func(least, most int) bool {
		left := time.Until(f.until)
		<-time.After(min(left, time.Duration(least+random.IntN(most-least))*time.Millisecond))
		return time.Now().Before(f.until)
	}
	faults = map[string]int{}
	names := []string{"stop", "slow", "kill", "stop", "cut", "slow", "mute", "reset"}
	for i := 0; pause(50, 150); i++ {
		name, who := names[i%len(names)], random.IntN(processes)
		if name == "kill" && i > len(names) && time.Until(f.until) < 2*time.Second {
			continue // too late to start another process
		}
		faults[name]++
		switch wire := f.wires[who]; name {
		case "stop":
			f.stop(who, random)
		case "kill":
			f.workers[who].Kill()
			f.start(who)
			f.sendOrder(who)
		case "slow":
			wire.Slow(150*time.Millisecond, 150*time.Millisecond)
			pause(200, 800)
		case "cut":
			wire.Cut()
			pause(5, 100)
			wire.Mend()
		case "mute":
			wire.Mute(20 * time.Millisecond)
			pause(20, 200)
		case "reset":
			wire.Reset(5 * time.Millisecond)
			pause(20, 200)
		}
		f.wires[who].Heal()
	}
	return faults
}

// stop stops a process shortly before the end of a part, until some time after it.
func (f *fleet) stop(who int, random *rand.Rand) {
	before := time.Duration(10+random.IntN(80)) * time.Millisecond
	<-time.After(untilPart(before))
	f.workers[who].Signal(f.t, syscall.SIGSTOP)
	<-time.After(before + time.Duration(1+random.IntN(300))*time.Millisecond)
	f.workers[who].Signal(f.t, syscall.SIGCONT)
}

// untilPart returns the time until the next part of the narrow limit begins, by a clock that is ahead by the given duration.
func untilPart(ahead time.Duration) time.Duration {
	part := narrow.Window / time.Duration(narrow.Segments)
	return part - (time.Duration(time.Now().UnixNano())+ahead)%part
}
