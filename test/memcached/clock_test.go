package memcached_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/memcachedtest"
	"github.com/slidegate/slidegate/test/serverclock"
)

// The clock of the server is this machine's in all these tests, and ahead of it by what the test has set.

// ahead returns how far the engine's clock is ahead of this machine's: at least and at most.
func ahead(engine *memcached.Engine) (low, high time.Duration) {
	before := time.Now()
	now := time.UnixMicro(int64(engine.Now()))
	return time.Until(now), now.Sub(before)
}

// follows reports whether an engine's clock is the server's, as far as the engine says that it can know it. That of one that was
// held up says little.
func follows(engine *memcached.Engine, server time.Duration) bool {
	low, high := ahead(engine)
	return low-engine.Skew() <= server && server <= high+engine.Skew()+time.Microsecond
}

func TestClocksAgree(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t)
	a, b := onServer(t, s), onServer(t, s)
	for range 1000 {
		for _, engine := range []*memcached.Engine{a, b} {
			if !follows(engine, 0) {
				low, high := ahead(engine)
				t.Fatalf("the clock is ahead of the server's by %v to %v, and says that it may be off by %v", low, high, engine.Skew())
			}
		}
	}
	if traits := a.Traits(); !traits.ServerClock || traits.Skew <= 0 || traits.Skew > time.Second {
		t.Errorf("the traits are %+v", traits)
	}
	t.Logf("the clocks may be off by %v and %v", a.Skew(), b.Skew())
}

// The server's clock decides, and not this machine's, also when it is set, and after a restart of the server. The clock by which the
// server forgets is another one, which is not set with it.
func TestServerClockIsSet(t *testing.T) {
	t.Parallel()
	clock := serverclock.New(t)
	clock.Set(time.Hour)
	s := memcachedtest.StartWithEnv(t, clock.Env())
	engines := []*memcached.Engine{onServer(t, s), onServer(t, s)}
	s.Kill()
	for _, engine := range engines {
		if !follows(engine, time.Hour) {
			t.Error("the clock is not the server's, or not when the server is down")
		}
	}
	s.Restart()
	clock.Set(-24 * time.Hour)
	for i, engine := range engines {
		kit.Eventually(t, "the clock to follow", func() bool { return follows(engine, -24*time.Hour) })
		const keep = 31 * 24 * time.Hour
		if _, err := engine.Swap(t.Context(), keyOf(i), []byte("x"), 0, keep); err != nil {
			t.Fatal(err)
		}
		if left := s.TimeToLive(keyOf(i)); left < keep || left > keep+5*time.Second {
			t.Errorf("after the clock was set, an entry to keep for %v is kept for %v", keep, left)
		}
	}
}
