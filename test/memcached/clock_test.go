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
	return now.Sub(time.Now()), now.Sub(before)
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

// The server's clock decides, and not this machine's, also when it is set. The clock by which the server forgets is another one
// that is not set with it.
func TestServerClockIsSet(t *testing.T) {
	t.Parallel()
	clock := serverclock.New(t)
	clock.Set(time.Hour)
	s := memcachedtest.StartWithEnv(t, clock.Env())
	engines := []*memcached.Engine{onServer(t, s), onServer(t, s)}
	for _, set := range []time.Duration{time.Hour, -24 * time.Hour} {
		clock.Set(set)
		for i, engine := range engines {
			kit.Eventually(t, "the clock to follow", func() bool { return follows(engine, set) })
			const keep = 31 * 24 * time.Hour
			name := keyOf(i) + set.String()
			if _, err := engine.Swap(t.Context(), name, []byte("x"), 0, keep); err != nil {
				t.Fatal(err)
			}
			if left := s.TimeToLive(name); left < keep || left > keep+5*time.Second {
				t.Errorf("with the clock set to %v, an entry to keep for %v is kept for %v", set, keep, left)
			}
		}
	}
}

// A restart does not disturb the clock, and looks go on after it.
func TestClockAfterRestart(t *testing.T) {
	t.Parallel()
	clock := serverclock.New(t)
	s := memcachedtest.StartWithEnv(t, clock.Env())
	engine := onServer(t, s)
	s.Kill()
	if !follows(engine, 0) {
		t.Error("without the server, the clock is another")
	}
	s.Restart()
	clock.Set(10 * time.Second)
	kit.Eventually(t, "the clock to follow the server that was started again", func() bool { return follows(engine, 10*time.Second) })
}
