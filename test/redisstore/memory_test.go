package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

func memory(t *testing.T, client rueidis.Client, name string) int64 {
	t.Helper()
	return number(t, client, "MEMORY", "USAGE", name, "SAMPLES", "0")
}

// A sliding window takes at most 170 bytes, including its name.
func TestMemoryOfWindow(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	bound := bind(t, "api", slidegate.Limit{Name: "login", Quota: 100, Window: time.Minute, Algorithm: slidegate.SlidingWindow})
	for range 3 {
		apply(t, s, rule.Take, store.Charge{Limit: bound, Key: "user:12345", Cost: 1})
	}
	name := nameOf(bound, "user:12345")
	used := memory(t, client, name)
	t.Logf("%s: %d bytes", name, used)
	if used > 170 {
		t.Errorf("%s takes %d bytes, want fewer", name, used)
	}
}

// A limit that names no algorithm takes at most 280 bytes in parts, however many are used, and less as a young log.
func TestMemoryOfDefault(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for _, c := range []struct{ quota, units, most int64 }{{60, 3, 180}, {60, 60, 640}, {600, 3, 280}, {600, 600, 280}} {
		bound := bind(t, "api", slidegate.Limit{Name: "login", Quota: c.quota, Window: time.Minute})
		key := fmt.Sprintf("user:%d-%d", c.quota, c.units)
		for range c.units {
			apply(t, s, rule.Take, store.Charge{Limit: bound, Key: key, Cost: 1})
		}
		used := memory(t, client, nameOf(bound, key))
		t.Logf("%d of %d: %d bytes", c.units, c.quota, used)
		if used > c.most {
			t.Errorf("%d of %d take %d bytes, want at most %d", c.units, c.quota, used, c.most)
		}
	}
}

// A full sliding log takes a quarter of the sorted set that other limiters keep, which has one member per request: its
// time and something unique. If refused requests count, the sorted set grows and the log does not.
func TestMemoryOfLog(t *testing.T) {
	t.Parallel()
	const quota, hammered = 100, 10_000
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	limit := slidegate.Limit{Name: "login", Quota: quota, Window: time.Hour, Algorithm: slidegate.SlidingLog, CountRefused: true}
	bound := bind(t, "api", limit)
	charge := store.Charge{Limit: bound, Key: "user:12345", Cost: 1}
	ours, theirs := nameOf(bound, charge.Key), "ratelimit:login:user:12345"
	both := func(n int) { // requests to both
		var batch []store.Request
		add, at := []string{"ZADD", theirs}, serverTime(t, client)/1_000
		for range n {
			batch = append(batch, store.Request{
				Op: rule.Take, Charges: []store.Charge{charge}, Answers: make([]rule.Answer, 1),
			})
			add = append(add, strconv.FormatInt(int64(at), 10), fmt.Sprintf("%d-%s", at, unique()))
		}
		if err := s.Apply(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		do(t, client, add...)
	}
	for range quota { // one by one: that is how the values grow
		both(1)
	}
	full, set := memory(t, client, ours), memory(t, client, theirs)
	t.Logf("%d units: %d bytes, the sorted set %d", quota, full, set)
	if 4*full > set {
		t.Errorf("a full log takes %d bytes, more than a quarter of the sorted set's %d", full, set)
	}
	for range hammered / 500 {
		both(500)
	}
	var after int64 // at most: Redis doubles a string that is appended to
	for range 2 * quota {
		both(1)
		after = max(after, memory(t, client, ours))
	}
	set = memory(t, client, theirs)
	t.Logf("%d refusals later: at most %d bytes, the sorted set %d", hammered, after, set)
	if after > 10*quota || 100*after > set {
		t.Errorf("%d refusals later the log takes %d bytes, and the sorted set %d", hammered, after, set)
	}
}

var lastUnique int64

// unique returns a random text as long as those that make members unique: the first half of a UUID.
func unique() string {
	lastUnique++
	return fmt.Sprintf("%08x-%04x-4%03x", lastUnique*2_654_435_761%(1<<32), lastUnique%(1<<16), lastUnique%(1<<12))
}
