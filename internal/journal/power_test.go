package journal_test

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
)

var cuts = flag.Int("cuts", 1000, "how often the power fails in the model")

// Nothing that Wait acknowledged is forgotten, no matter which of the writes that were not synced reach the disk when the power fails or the
// process dies.
func TestPowerLossForgetsNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := newDisk()
	var cut, kills int
	var floor [workers]uint64 // acknowledged
	if testing.Short() {
		*cuts = min(*cuts, 100)
	}
	for n := range *cuts {
		if n%50 == 0 {
			d, floor = newDisk(), [workers]uint64{}
		}
		d = playUntilCut(t, d, random, &floor)
		j, c, report, err := restored("disk", journal.Options{Files: d, Synced: true, Segment: small})
		if err != nil {
			t.Fatalf("cut %d: %v", n, err)
		}
		for w := range workers {
			if c.value[w] < floor[w] {
				t.Errorf("cut %d: counter %d is %d, but %d was acknowledged; report %+v", n, w, c.value[w], floor[w], report)
			}
		}
		floor = c.value // what was replayed is synced
		if report.CutAt != "" {
			cut++
		}
		if random.IntN(2) == 0 {
			_ = j.Close()
		} else {
			d, kills = d.afterKill(), kills+1
			_ = j.Close()
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d cuts, %d of them with something to drop, %d kills between", *cuts, cut, kills)
}

// playUntilCut uses a journal until the power fails or the process dies, and returns what is left. It raises floor to what was acknowledged.
func playUntilCut(t *testing.T, d *disk, random *rand.Rand, floor *[workers]uint64) (after *disk) {
	t.Helper()
	over := make(chan struct{})
	stop := sync.OnceFunc(func() { close(over) })
	powerLoss := random.IntN(4) > 0
	var c *counters
	opened := make(chan struct{}) // c is set
	d.mu.Lock()
	d.calls, d.cutAt = 0, 1+random.IntN(200)
	d.onCut = func() {
		select {
		case <-opened:
			for w := range workers {
				floor[w] = c.acked[w].Load()
			}
		default: // while opening
		}
		if after = d.afterKill(); powerLoss {
			after = d.afterPowerLoss(random)
		}
		stop()
	}
	d.mu.Unlock()
	j, c0, report, err := restored("disk", journal.Options{Files: d, Synced: true, Segment: small})
	if err != nil {
		t.Fatalf("Open: %v; report %+v", err, report)
	}
	c = c0
	close(opened)
	var all sync.WaitGroup
	for w := range uint64(workers) {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				if !c.add(j, w) {
					t.Error("a record is not durable")
					return
				}
			}
		})
	}
	all.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-j.Due():
				if err := c.checkpoint(j); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	all.Wait()
	_ = j.Close()
	return after
}

// In a mapping, a loss of power may keep any of the records since the last checkpoint: those behind the first gap are not replayed. After
// the end of a process they are.
func TestPowerLossStopsAtTheFirstGap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	left := leave(t, dir, journal.Options{Segment: small}, false)
	lost := left.afterKill()
	lost.boot = anotherBoot(left.boot)
	report, records, err := openAs(t, left, false)
	if err != nil || len(records) != 600+300+100+100+400 || report.Holes != 1 || report.Unfinished != 1 || report.PowerLoss {
		t.Errorf("the same boot: got %d records, %+v and %v, want 1500 with a hole and an unfinished one", len(records), report, err)
	}
	for _, first := range []bool{true, false} { // it is said once
		report, records, err = openAs(t, lost, false)
		if err != nil || len(records) != 600+300+100 || (report.CutAt != "") != first || report.PowerLoss != first {
			t.Errorf("another boot: got %d records, %+v and %v, want 1000", len(records), report, err)
		}
	}
}
