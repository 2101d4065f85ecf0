package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
)

// limitsOfAllForms returns limits of every form of state.
func limitsOfAllForms(quota int64) []slidegate.Limit {
	return []slidegate.Limit{
		{Quota: quota, Window: time.Minute, Algorithm: slidegate.SlidingWindow},
		{Quota: quota, Window: time.Minute, Algorithm: slidegate.FixedWindow},
		{Quota: quota, Window: time.Minute, Overlap: slidegate.OverlapWhole},
		{Quota: quota, Window: time.Minute, Anchor: slidegate.AnchorFirst, Overlap: slidegate.OverlapWhole},
		{Quota: quota, Window: time.Minute, Segments: 6},
		{Quota: quota, Window: time.Minute, Algorithm: slidegate.SlidingLog},
		{Quota: quota, Window: time.Minute, Algorithm: slidegate.TokenBucket},
		{Quota: quota, Window: time.Minute, Algorithm: slidegate.SlidingWindow, CountRefused: true},
		{Quota: quota, Window: time.Minute},                         // a log
		{Quota: quota, Window: time.Minute, Lease: true},            // parts
		{Quota: quota << 30, Window: time.Millisecond, Segments: 1}, // too large to be packed
	}
}

// A store that is full of live keys must not admit what a store without bounds would refuse. The oracle receives only what
// the store admitted, so if the oracle refuses, the store gave a key more than the rule does.
func TestFullStoreOnlyErrsTowardRefusal(t *testing.T) {
	memstore.Alone(t)
	chained := slidegate.Limit{Quota: 1_000, Window: time.Minute, Algorithm: slidegate.SlidingLog} // most of its units are not in the slot
	for _, limit := range append(limitsOfAllForms(5), chained) {
		t.Run(limit.String(), func(t *testing.T) {
			clock := storetest.NewClock(1_767_225_600_000_000)
			store := openTiny(t, memstore.Options{Now: clock.Now})
			limiter := newLimiter(t, store, limit)
			oracle := newLimiter(t, storetest.NewReference(clock), limit)
			const seed = 1
			random := rand.New(rand.NewPCG(seed, 0))
			unit := max(1, limit.Quota/5)
			inherited := 0
			for i := range 40_000 {
				key := fmt.Sprint(random.IntN(9000))
				if i%3 == 0 {
					key = fmt.Sprint(random.IntN(20)) // some keys keep coming back
				}
				cost := unit * (1 + random.Int64N(2))
				d := allow(t, limiter, key, cost)
				if d.Flags&rule.Inherited != 0 {
					inherited++
				}
				if exact := allowIf(t, oracle, key, cost, d.Allowed); d.Allowed && !exact.Allowed {
					t.Fatalf("request %d (seed %d): admitted, but the key has used its quota", i, seed)
				}
				clock.Advance(rule.Micros(random.Int64N(max(2, limit.Window.Microseconds()/1000))))
			}
			if inherited == 0 {
				t.Fatal("the store was never full: the test proves nothing")
			}
		})
	}
}

// allowIf charges the oracle if the store admitted the request, and only peeks otherwise.
func allowIf(t *testing.T, l *slidegate.Limiter, key string, cost int64, charge bool) slidegate.Decision {
	t.Helper()
	if charge {
		return allow(t, l, key, cost)
	}
	d, err := l.Peek(context.Background(), key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A flood of new keys must not let a refused key back in, grow the store, or give any key more than its quota.
func TestFloodReleasesNoRefusedKey(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range limitsOfAllForms(3)[:10] {
		t.Run(limit.String(), func(t *testing.T) {
			clock := storetest.NewClock(1_767_225_600_000_000)
			store := openTiny(t, memstore.Options{Now: clock.Now})
			limiter := newLimiter(t, store, limit)
			for range 4 {
				allow(t, limiter, "victim", 1)
			}
			admitted := map[string]int{}
			for i := range 60_000 {
				key := fmt.Sprint("new", i/2)
				if allow(t, limiter, key, 1).Allowed {
					admitted[key]++
				}
			}
			for key, n := range admitted {
				if n > 3 {
					t.Fatalf("%s was admitted %d times", key, n)
				}
			}
			if d := allow(t, limiter, "victim", 1); d.Allowed {
				t.Error("the flood let a refused key back in")
			}
			if used, room := store.Capacity(); used > room {
				t.Errorf("grew to %d bytes, want at most %d", used, room)
			}
			if store.Stats().Evictions == 0 {
				t.Error("the store was never full: the test proves nothing")
			}
		})
	}
}

// A larger quota on the same shape must not evict a key that has used up a smaller one.
func TestPlansShareAFullStore(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(1_767_225_600_000_000)
	store := openTiny(t, memstore.Options{Now: clock.Now})
	free := newLimiter(t, store, sliding(3, time.Minute))
	pro := testkit.Must(free.With(sliding(1000, time.Minute)))(t)
	for i := range 50 {
		allow(t, free, fmt.Sprint("free", i), 3)
	}
	for i := range 20_000 {
		allow(t, pro, fmt.Sprint("pro", i%8000), 1)
	}
	for i := range 50 {
		if allow(t, free, fmt.Sprint("free", i), 1).Allowed {
			t.Errorf("free key %d was admitted again", i)
		}
	}
}

func TestRefuseWhenFull(t *testing.T) {
	clock := storetest.NewClock(1_767_225_600_000_000)
	store := openTiny(t, memstore.Options{RefuseWhenFull: true, Now: clock.Now})
	limiter := newLimiter(t, store, sliding(3, time.Minute))
	var full error
	for i := 0; i < 5000 && full == nil; i++ {
		_, full = limiter.Allow(context.Background(), fmt.Sprint(i))
	}
	if !errors.Is(full, memstore.ErrFull) {
		t.Fatalf("got %v, want ErrFull", full)
	}
	if d := allow(t, limiter, "0", 1); !d.Allowed || d.Remaining != 1 {
		t.Errorf("an existing key was not served: got %+v, want allowed, Remaining 1", d)
	}
	clock.Advance(rule.Micros(2) * rule.Micros(time.Minute.Microseconds()))
	if d := allow(t, limiter, "one more", 1); !d.Allowed || d.Flags != 0 {
		t.Errorf("no space after all keys expired: got %+v, want allowed, no flags", d)
	}
}

// When the keys of a full store have expired, nothing of them is left to inherit.
func TestForgottenExpires(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range limitsOfAllForms(3) {
		clock := storetest.NewClock(1_767_225_600_000_000)
		store := openTiny(t, memstore.Options{Now: clock.Now})
		limiter := newLimiter(t, store, limit)
		for i := range 5000 {
			allow(t, limiter, fmt.Sprint(i), 1)
		}
		clock.Advance(rule.Micros(3) * rule.Micros(limit.Window.Microseconds()))
		for i := range 20 {
			if d := allow(t, limiter, fmt.Sprint("later", i), 1); d.Flags != 0 || d.Remaining != limit.Quota-1 {
				t.Fatalf("%s: after everything expired: got %+v, want no flags, Remaining %d", limit, d, limit.Quota-1)
			}
		}
	}
}
