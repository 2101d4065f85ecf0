//go:build !race

// No goroutines share anything here, and with the race detector it takes a minute.

package failure

import (
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The table is bounded; an admission that left nothing does not take the place of a refusal that is valid, and a refusal may
// take the place of anything.
func TestRefusalsAreBounded(t *testing.T) {
	limit := store.Bind("", "l", "l", rule.Limit{Algorithm: rule.SlidingLog, Quota: 1, Window: 1000})
	table := &refusals{seed: maphash.MakeSeed()}
	known := func(from, to int, now rule.Micros) (n int) {
		for i := from; i < to; i++ {
			if _, rest, _ := table.lookup("", limit, fmt.Sprint(i), 1, now); rest > 0 {
				n++
			}
		}
		return n
	}
	const many = maxRefusals / 16
	for i := range many {
		table.record("", limit, fmt.Sprint(i), 1, false, 0, 500, moment{})
	}
	if n := known(0, many, 499); n != many {
		t.Fatalf("%d of %d refusals are remembered, want all in a table that is nearly empty", n, many)
	}
	for i := many; i < 3*maxRefusals; i++ {
		table.record("", limit, fmt.Sprint(i), 1, false, 0, 500, moment{})
	}
	before := known(0, 3*maxRefusals, 499)
	for i := 3 * maxRefusals; i < 6*maxRefusals; i++ {
		table.record("", limit, fmt.Sprint(i), 1, true, 0, 900, moment{})
	}
	if n := known(0, 3*maxRefusals, 499); n != before {
		t.Errorf("%d of %d refusals survived a flood of admissions", n, before)
	}
	total := 0
	for i := range table.sets {
		if set := table.sets[i].Load(); set != nil {
			for k := range set.notes {
				if set.notes[k].Load() != nil {
					total++
				}
			}
		}
	}
	if total > maxRefusals || total < maxRefusals*9/10 {
		t.Errorf("%d are remembered, want up to %d", total, maxRefusals)
	}
	if n := known(0, 3*maxRefusals, 500); n != 0 {
		t.Errorf("%d are remembered beyond their time", n)
	}
	table.record("", limit, "late comer", 1, false, 0, 1000, moment{at: 100})
	if remaining, rest, _ := table.lookup("", limit, "late comer", 1, 600); remaining != 0 || rest != 500 {
		t.Errorf("a refusal in a full table: got %d for %d, want 0 for 500", remaining, rest)
	}
}

// With half as many keys as places, fewer than one in a thousand is lost.
func TestRefusalsAreRemembered(t *testing.T) {
	limit := store.Bind("", "l", "l", rule.Limit{Algorithm: rule.SlidingLog, Quota: 1, Window: 1000})
	for _, keys := range []int{20_000, 40_000, 60_000} {
		table, lost := &refusals{seed: maphash.MakeSeed()}, 0
		for i := range keys {
			table.record("", limit, fmt.Sprint(i), 1, false, 0, 500, moment{})
		}
		for i := range keys {
			if _, rest, _ := table.lookup("", limit, fmt.Sprint(i), 1, 499); rest != 1 {
				lost++
			}
		}
		if lost > keys/1000 {
			t.Errorf("%d of %d refusals are lost", lost, keys)
		}
	}
}

// A refusal that a cache repeats at every request is written once.
func TestRepeatedRefusalsAreNotWritten(t *testing.T) {
	limit := store.Bind("", "l", "l", rule.Limit{Algorithm: rule.SlidingLog, Quota: 1, Window: 1_000_000})
	table := &refusals{seed: maphash.MakeSeed()}
	table.record("", limit, "k", 1, false, 0, 500_000, moment{})
	if n := testing.AllocsPerRun(100, func() { table.record("", limit.In(store.FailOpen), "k", 1, false, 0, 400_000, moment{at: 100_000}) }); n != 0 {
		t.Errorf("a repeated refusal allocates %v times, want 0", n)
	}
}

// A key that is shed is not displaced by others that are late, and the table can be full of them.
func TestLateTable(t *testing.T) {
	table := &lateKeys{seed: maphash.MakeSeed()}
	const now = int64(5e9)
	hash := func(key string) uint64 { return table.hashOf(address{key: key}) }
	for range lateInARow {
		if table.isShed(hash("k"), now) {
			t.Fatal("shed before it was late three times")
		}
		table.record(hash("k"), now)
	}
	for i := range 100_000 {
		table.record(hash(fmt.Sprint(i)), now+1)
	}
	if !table.isShed(hash("k"), now+shedFor-cellTick) || table.isShed(hash("k"), now+shedFor) {
		t.Error("not shed for exactly a second")
	}
	shed := 0
	for i := range 100_000 {
		if table.isShed(hash(fmt.Sprint("never asked ", i)), now+1) {
			shed++
		}
	}
	if shed > 1 { // 36 bits of hash
		t.Errorf("%d keys that were never late are shed", shed)
	}
	if !table.isActive(now+lateMemory) || table.isActive(now+1+lateMemory) {
		t.Error("not empty after its memory has passed")
	}
}
