package memcached_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/memcachedtest"
)

var memoryKeys = flag.Int("memory-keys", 1_000, "how many keys the memory of entries is measured with")

// A full server that evicts forgets keys, which then have their whole quota again. The test prints how many keys it forgot, and checks
// that they are exactly as many as the server reports as evicted.
func TestEvictedKeysAreForgotten(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t, "-m", "1", "-I", "512k")
	st := newStore(t, openOnServer(t, s), kvstore.Options{})
	limit := bind(t, slidegate.Limit{Name: "once", Quota: 1, Window: time.Hour, Algorithm: slidegate.SlidingLog})
	const keys = 7_000
	if n, err := fill(t, st, limit, keys); err != nil {
		t.Fatalf("after %d keys: %v", n, err)
	}
	evicted, forgotten := s.Count("evictions"), int64(0)
	for i := range keys {
		var answers [1]rule.Answer
		charges := []store.Charge{{Limit: limit, Key: keyOf(i)}}
		if err := st.Apply(context.Background(), []store.Request{{Op: rule.Peek, Charges: charges, Answers: answers[:]}}); err != nil {
			t.Fatal(err)
		}
		forgotten += answers[0].Remaining
	}
	t.Logf("a server of 1 MB forgot %d of %d keys, and says that it evicted %d", forgotten, keys, evicted)
	if forgotten == 0 || forgotten != evicted {
		t.Errorf("it forgot %d keys, want as many as it evicted: %d", forgotten, evicted)
	}
}

// The test prints how much of the server's memory an entry of each limit takes.
func TestMemory(t *testing.T) {
	t.Parallel()
	for _, limit := range []slidegate.Limit{
		{Name: "window", Quota: 1000, Window: time.Hour},
		{Name: "window60", Quota: 1000, Window: time.Hour, Segments: 60},
		{Name: "bucket", Quota: 1000, Window: time.Hour, Algorithm: slidegate.TokenBucket},
		{Name: "log", Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingLog},
	} {
		s := memcachedtest.Start(t, "-M", "-m", "1024")
		st := newStore(t, openOnServer(t, s), kvstore.Options{})
		before := s.Count("total_malloced", "slabs")
		if n, err := fill(t, st, bind(t, limit), *memoryKeys); err != nil {
			t.Fatalf("after %d keys: %v", n, err)
		}
		items := s.Count("curr_items")
		t.Logf("%-8s: %d entries of %d bytes on average; the server has taken %d bytes for each", limit.Name, items,
			s.Count("bytes")/items, (s.Count("total_malloced", "slabs")-before)/items)
		if items != int64(*memoryKeys) {
			t.Errorf("%s: got %d entries, want %d, one per key", limit.Name, items, *memoryKeys)
		}
	}
}
