package serverclock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
)

// server is a clock that is ahead of ours, may run faster or slower, and takes time to reach.
type server struct {
	mu          sync.Mutex
	start       time.Time
	ahead       time.Duration
	fast        time.Duration // parts per million
	there, back time.Duration // how long a request and its reply take
	jitter      *rand.Rand
	down        error
	queries     int
}

// set changes the server while clocks read it.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead + time.Since(s.start)*s.fast/1_000_000).Truncate(time.Microsecond)
}

func (s *server) pass(most time.Duration) {
	s.set(func() {
		if s.jitter != nil {
			most = time.Duration(s.jitter.Int64N(int64(most) + 1))
		}
	})
	testkit.Delay(most)
}

// query reads the clock.
func (s *server) query(context.Context) (r Reading, err error) {
	if s.set(func() { s.queries++; err = s.down }); err != nil {
		return r, err
	}
	r.Sent = time.Now()
	s.pass(s.there)
	r.Shown = s.now()
	s.pass(s.back)
	r.Received = time.Now()
	return r, nil
}

func started(t *testing.T, s *server) *Clock {
	t.Helper()
	s.set(func() { s.start = time.Now() })
	c, err := Start(t.Context(), s.query)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// off returns how far the clock is from the server's.
func (s *server) off(c *Clock) time.Duration {
	d := c.Now() - rule.Micros(s.now().UnixMicro())
	return max(d, -d).Duration()
}

func TestErrorIsABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(50) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := &server{
				ahead: time.Duration(random.Int64N(int64(time.Hour))) - 30*time.Minute, fast: time.Duration(random.Int64N(2*drift+1) - drift),
				there: 5 * time.Millisecond, back: time.Millisecond, jitter: rand.New(rand.NewPCG(seed, 1)),
			}
			c := started(t, s)
			for range 40 {
				testkit.Pass(time.Duration(random.Int64N(int64(2 * time.Second))))
				if off, most := s.off(c), c.Error()+time.Microsecond; off > most {
					t.Fatalf("seed %d: the clock is off by %v and reports at most %v", seed, off, most)
				}
				if most := c.Error(); most > 4*time.Millisecond+2*queryEvery*drift/1_000_000 {
					t.Fatalf("seed %d: the clock may be off by %v although a round trip takes at most 6ms", seed, most)
				}
			}
			c.Stop()
		}
	})
}

// Many readings together are more exact than the best of them, since requests and replies take varying times.
func TestReadingsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{there: 10 * time.Millisecond, back: 10 * time.Millisecond, jitter: rand.New(rand.NewPCG(1, 2))}
		few, many := started(t, s), started(t, s)
		for range 199 {
			if err := many.read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if few.Error() < 10*many.Error() {
			t.Errorf("the error is %v after one reading and %v after 200, want less than a tenth", few.Error(), many.Error())
		}
	})
}

func TestServerClockIsSet(t *testing.T) {
	for _, test := range []struct {
		name string
		by   time.Duration
		back time.Duration // by how much Now goes back
	}{
		{"ahead", time.Hour, 0},
		{"a little back", -800 * time.Millisecond, 0},
		{"far back", -time.Hour, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{there: time.Millisecond, back: time.Millisecond}
				c := started(t, s)
				testkit.Pass(time.Second)
				s.set(func() { s.ahead += test.by })
				before, lowest := c.Now(), rule.Micros(0)
				for range 700 { // seven seconds
					testkit.Pass(10 * time.Millisecond)
					now := c.Now()
					lowest = min(lowest, now-before)
					before = now
				}
				if off := s.off(c); off > c.Error() {
					t.Errorf("seven seconds later the clock is off by %v and reports at most %v", off, c.Error())
				}
				if back := -lowest.Duration(); max(back-test.back, test.back-back) > 50*time.Millisecond {
					t.Errorf("the clock went back by %v, want %v", back, test.back)
				}
			})
		})
	}
}

func TestServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{there: time.Millisecond, back: time.Millisecond, down: errors.New("away")}
		if _, err := Start(t.Context(), s.query); !errors.Is(err, s.down) {
			t.Errorf("Start without a server returned %v, want its error", err)
		}
		s.set(func() { s.down = nil })
		c := started(t, s)
		s.set(func() { s.down = errors.New("away") })
		testkit.Pass(time.Hour)
		if off := s.off(c); off > time.Millisecond {
			t.Errorf("after an hour without the server the clock is off by %v", off)
		}
		if most := c.Error(); most < time.Hour*drift/1_000_000 {
			t.Errorf("after an hour without the server the clock reports an error of at most %v, but clocks may drift further apart", most)
		}
		if queries := s.queries; queries < 1_000 || queries > 4_000 {
			t.Errorf("%d queries in an hour, want about one per second", queries)
		}
		s.set(func() { s.down = nil })
		testkit.Pass(queryEvery)
		if most := c.Error(); most > 3*time.Millisecond {
			t.Errorf("the server is back, but the clock reports an error of %v", most)
		}
		c.Stop()
		queries := s.queries
		testkit.Pass(time.Minute)
		if s.queries != queries {
			t.Error("a query was made after Stop")
		}
	})
}
