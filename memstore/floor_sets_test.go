package memstore

import (
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// A floor that was saved when sets were cut otherwise goes to every set that has a part of what it covers, and to no other.
func TestFloorOfOtherSets(t *testing.T) {
	const now = rule.Micros(1_767_225_600_000_000)
	for _, sets := range []int{1, 7, bucketSets1, packedSets} {
		for set := range sets {
			s, err := newStore(Options{Now: func() rule.Micros { return now }})
			if err != nil {
				t.Fatal(err)
			}
			table := s.addTable(rule.Shape{Algorithm: rule.TokenBucket, Window: 60_000_000})
			r := record{table: table, floor: true, set: set, sets: sets, state: rule.LegacyBucket(now+1_000_000, 0)}
			restoreAll([]record{r})
			var want uint32
			for part := range uint64(10_000) { // hashes all over the old set
				low := (uint64(set)<<32 + part<<32/10_000) / uint64(sets)
				if at, _ := setOf(low, sets); int(at) == set {
					now, _ := setOf(low, table.sets)
					want |= 1 << now
				}
			}
			if got := table.segment(0).header().floors; got != want {
				t.Fatalf("set %d of %d went to %b, want %b", set, sets, got, want)
			}
		}
	}
}
