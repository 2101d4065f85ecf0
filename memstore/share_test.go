package memstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
)

// named returns limits of every form, whose names share a prefix.
func named(name string, quota int64) []slidegate.Limit {
	limits := limitsOfAllForms(quota)
	for i := range limits {
		limits[i].Name = fmt.Sprint(name, i)
	}
	return limits
}

// A flood of keys on one limit takes no space from others: their first-time clients are all admitted although all memory
// was taken, without the flag Inherited. The refused key of the flooded limit stays refused.
func TestFloodOnAnotherLimit(t *testing.T) {
	memstore.Alone(t)
	for _, flooded := range named("flooded", 100) {
		t.Run(flooded.String(), func(t *testing.T) {
			clock := storetest.NewClock(startMicros)
			st := open(t, memstore.Options{MaxBytes: 1 << 20, Now: clock.Now})
			flood := newLimiter(t, st, flooded)
			allow(t, flood, "victim", flooded.Quota)
			for n := 0; st.Stats().Evictions < 1000; n++ {
				allow(t, flood, fmt.Sprint(n), 1)
			}
			for _, limit := range named("login", 5) {
				l := newLimiter(t, st, limit)
				for client := range 300 {
					if d := allow(t, l, fmt.Sprint(client), limit.Quota); !d.Allowed || d.Flags != 0 {
						t.Fatalf("%s: first-time client %d: %+v, want it admitted", limit, client, d)
					}
				}
				for client := range 300 {
					if d := allow(t, l, fmt.Sprint(client), 1); d.Allowed || d.Flags&rule.Inherited != 0 {
						t.Fatalf("%s: client %d: %+v, want it refused by its own counts", limit, client, d)
					}
				}
			}
			if d := allow(t, flood, "victim", 1); d.Allowed {
				t.Error("the refused key of the flooded limit was admitted again")
			}
			if used, room := st.Capacity(); used > room {
				t.Errorf("%d bytes in use, want at most %d", used, room)
			}
		})
	}
}

// When the windows of a flood have passed, another limit can have all the memory, and nothing is remembered.
func TestFloodLeavesNothingBehind(t *testing.T) {
	memstore.Alone(t)
	for _, flooded := range named("flooded", 3) {
		t.Run(flooded.String(), func(t *testing.T) {
			clock := storetest.NewClock(startMicros)
			st := open(t, memstore.Options{MaxBytes: 1 << 20, Now: clock.Now})
			flood := newLimiter(t, st, flooded)
			for n := 0; st.Stats().Evictions < 20_000; n++ {
				allow(t, flood, fmt.Sprint(n), 1)
			}
			clock.Advance(3 * rule.Micros(flooded.Window.Microseconds()))
			other := newLimiter(t, st, slidegate.Limit{Name: "other", Quota: 3, Window: time.Hour, Algorithm: slidegate.TokenBucket})
			const clients = 3500 // lines of 64 bytes: at least half of the memory
			for client := range clients {
				if d := allow(t, other, fmt.Sprint(client), 3); !d.Allowed || d.Flags != 0 {
					t.Fatalf("client %d: %+v, want it admitted", client, d)
				}
			}
			for client := range clients {
				if d := allow(t, other, fmt.Sprint(client), 1); d.Allowed || d.Flags != 0 {
					t.Fatalf("client %d: %+v, want it refused by its own counts", client, d)
				}
			}
			for _, stats := range st.Stats().Limits {
				if strings.HasPrefix(stats.Name, "flooded") && stats.Forgotten != 0 {
					t.Errorf("%d keys are still remembered", stats.Forgotten)
				}
			}
		})
	}
}

// Reset frees a forgotten key, and no other.
func TestResetOfAForgottenKey(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range limitsOfAllForms(3) {
		t.Run(limit.String(), func(t *testing.T) {
			clock := storetest.NewClock(startMicros)
			st := openTiny(t, memstore.Options{Now: clock.Now})
			l := newLimiter(t, st, limit)
			const keys = 4000
			for i := range keys {
				allow(t, l, fmt.Sprint(i), limit.Quota)
			}
			freed := 0
			for i := range keys {
				key := fmt.Sprint(i)
				d := testkit.Must(l.Peek(t.Context(), key, 1))(t)
				if d.Allowed {
					t.Fatalf("key %d was admitted again", i)
				}
				if d.Flags&rule.Inherited == 0 || freed == 10 {
					continue
				}
				freed++
				if err := l.Reset(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				if d := allow(t, l, key, limit.Quota); !d.Allowed || d.Flags != 0 {
					t.Fatalf("key %d after a reset: %+v, want all of its quota", i, d)
				}
				if d := allow(t, l, key, 1); d.Allowed {
					t.Fatalf("key %d has more than its quota after a reset", i)
				}
			}
			if freed == 0 {
				t.Fatal("no key was forgotten: the test proves nothing")
			}
		})
	}
}

// With RefuseWhenFull, a restart with more keys than there is space for does not give any of them its quota again.
func TestRestartInLessSpaceWithRefuseWhenFull(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range limitsOfAllForms(3) {
		clock := storetest.NewClock(startMicros)
		st := openFolder(t, memstore.Options{Now: clock.Now})
		l := newLimiter(t, st, limit)
		const keys = 9_000
		for i := range keys {
			allow(t, l, fmt.Sprint(i), limit.Quota)
		}
		for _, way := range ways {
			small := restart(t, st, way, memstore.Options{MaxBytes: 256 << 10, RefuseWhenFull: true, Now: clock.Now})
			after := newLimiter(t, small, limit)
			for i := range keys {
				if d, err := after.Allow(t.Context(), fmt.Sprint(i)); err == nil && d.Allowed {
					t.Fatalf("%s, from %s: key %d was admitted again", limit, way, i)
				}
			}
		}
	}
}
