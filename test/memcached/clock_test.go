package memcached_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/memcachedtest"
	"github.com/slidegate/slidegate/test/serverclock"
)

// In these tests the server's clock is this machine's, plus an offset that the test sets.

// ahead returns how far the engine's clock is ahead of this machine's: at least and at most.
func ahead(engine *memcached.Engine) (low, high time.Duration) {
	before := time.Now()
	now := time.UnixMicro(int64(engine.Now()))
	return time.Until(now), now.Sub(before)
}

// clockFollows reports whether an engine's clock equals the server's, within the error that the engine reports. After a delay the
// error is large, so the result means little.
func clockFollows(engine *memcached.Engine, server time.Duration) bool {
	low, high := ahead(engine)
	return low-engine.Traits().Skew/2 <= server && server <= high+engine.Traits().Skew/2+time.Microsecond
}

func TestClocksAgree(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t)
	a, b := openOnServer(t, s), openOnServer(t, s)
	for range 1000 {
		for _, engine := range []*memcached.Engine{a, b} {
			if !clockFollows(engine, 0) {
				low, high := ahead(engine)
				t.Fatalf("the clock is ahead of the server's by %v to %v, and reports that it may be off by %v", low, high, engine.Traits().Skew/2)
			}
		}
	}
	if traits := a.Traits(); !traits.ServerClock || traits.Skew <= 0 || traits.Skew > time.Second {
		t.Errorf("got traits %+v, want ServerClock, and a Skew of up to a second", traits)
	}
	t.Logf("the clocks may be off by %v and %v", a.Traits().Skew/2, b.Traits().Skew/2)
}

// The server's clock decides, not this machine's, even after it is set and after a restart of the server. The server expires entries
// by another clock, which is not set with it.
func TestServerClockDecidesAfterItIsSet(t *testing.T) {
	t.Parallel()
	clock := serverclock.New(t)
	clock.Set(time.Hour)
	s := memcachedtest.StartWithEnv(t, clock.Env())
	engines := []*memcached.Engine{openOnServer(t, s), openOnServer(t, s)}
	s.Kill()
	for _, engine := range engines {
		if !clockFollows(engine, time.Hour) {
			t.Error("the clock is not the server's, or not when the server is down")
		}
	}
	s.Restart()
	clock.Set(-24 * time.Hour)
	for i, engine := range engines {
		kit.Eventually(t, "the clock to follow", func() bool { return clockFollows(engine, -24*time.Hour) })
		const keep = 31 * 24 * time.Hour
		if _, err := engine.Swap(t.Context(), keyOf(i), []byte("x"), 0, keep); err != nil {
			t.Fatal(err)
		}
		if left := s.TimeToLive(keyOf(i)); left < keep || left > keep+5*time.Second {
			t.Errorf("after the clock was set: got an entry kept for %v, want %v, and at most 5s more", left, keep)
		}
	}
}
