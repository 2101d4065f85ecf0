package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

const startMicros = 1_767_225_600_000_000

// algorithms contains one algorithm for each form of state.
var algorithms = []rule.Algorithm{slidegate.FixedWindow, slidegate.SlidingWindow, slidegate.SlidingLog, slidegate.TokenBucket}

// windows returns limits of one unit, each of a different shape.
func windows(n int, algorithm rule.Algorithm) []slidegate.Limit {
	limits := make([]slidegate.Limit, n)
	for i := range limits {
		limits[i] = slidegate.Limit{Quota: 1, Window: time.Duration(i+1) * time.Second, Algorithm: algorithm}
	}
	return limits
}

// takeEach takes the only unit of each limit.
func takeEach(t testing.TB, st store.Store, limits []slidegate.Limit) {
	t.Helper()
	for _, limit := range limits {
		if d := allow(t, newLimiter(t, st, limit), "key", 1); !d.Allowed {
			t.Fatalf("%s: the first unit was refused", limit)
		}
	}
}

func isFull(t testing.TB, st store.Store, limit slidegate.Limit) bool {
	t.Helper()
	_, err := newLimiter(t, st, limit).Allow(context.Background(), "key")
	if err != nil && !errors.Is(err, memstore.ErrLimits) {
		t.Fatal(err)
	}
	return err != nil
}

// A shape makes space for another as soon as none of its keys is live, and not before.
func TestIdleShapeMakesSpace(t *testing.T) {
	const most = 8
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			clock := storetest.NewClock(startMicros)
			st := open(t, memstore.Options{MaxLimits: most, Now: clock.Now})
			limits := windows(most, algorithm)
			takeEach(t, st, limits)
			hour := slidegate.Limit{Quota: 1, Window: time.Hour, Algorithm: algorithm}
			if !isFull(t, st, hour) {
				t.Fatalf("got no error for a shape beyond %d with live keys", most)
			}
			for _, limit := range limits {
				if allow(t, newLimiter(t, st, limit), "key", 1).Allowed {
					t.Fatalf("%s: admitted twice after another shape was rejected for lack of space", limit)
				}
			}
			clock.Advance(4_000_000) // the windows of one and two seconds have passed, and one or two others
			if isFull(t, st, hour) {
				t.Error("refused although keys of one second have expired")
			}
			if allow(t, newLimiter(t, st, limits[most-1]), "key", 1).Allowed {
				t.Errorf("%s: admitted twice within its window", limits[most-1])
			}
		})
	}
}

// Requests that use shapes while these are dropped and created again are never admitted twice in one window.
func TestDroppedShapeLosesNothing(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			clock := storetest.NewClock(startMicros)
			st := open(t, memstore.Options{MaxLimits: 2, Now: clock.Now})
			limits := windows(4, algorithm)
			for i := range limits {
				limits[i].Window *= 10
			}
			for round := range 300 {
				var admitted [4]atomic.Int64
				var callers sync.WaitGroup
				for range 3 {
					for i, limit := range limits {
						limiter := newLimiter(t, st, limit)
						callers.Go(func() {
							d, err := limiter.Allow(context.Background(), "key")
							if err != nil && !errors.Is(err, memstore.ErrLimits) {
								t.Error(err)
							}
							if err == nil && d.Allowed {
								admitted[i].Add(1)
							}
						})
					}
				}
				callers.Wait()
				for i := range admitted {
					if n := admitted[i].Load(); n > 1 {
						t.Fatalf("round %d: %s admitted %d at one time", round, limits[i], n)
					}
				}
				clock.Advance(100_000_000) // all have expired
			}
		})
	}
}

// A request that had found its key when the shape was dropped is decided in the table that replaced it.
func TestDropDuringADecision(t *testing.T) {
	for _, limit := range []slidegate.Limit{
		{Quota: 1, Window: time.Second, Algorithm: slidegate.FixedWindow},
		{Quota: 1, Window: time.Second, Algorithm: slidegate.SlidingWindow},
		{Quota: 1 << 40, Window: time.Second, Algorithm: slidegate.FixedWindow}, // too large to be packed
	} {
		t.Run(limit.String(), func(t *testing.T) {
			clock := storetest.NewClock(startMicros)
			var armed atomic.Bool
			reading, goOn := make(chan struct{}), make(chan struct{})
			st := open(t, memstore.Options{MaxLimits: 1, Now: func() rule.Micros {
				if armed.CompareAndSwap(true, false) {
					close(reading)
					<-goOn
				}
				return clock.Now()
			}})
			limiter := newLimiter(t, st, limit)
			allow(t, limiter, "key", limit.Quota)
			clock.Advance(5_000_000)
			armed.Store(true)
			late := make(chan bool)
			go func() {
				d, err := limiter.AllowN(context.Background(), "key", limit.Quota)
				if err != nil {
					t.Error(err)
				}
				late <- d.Allowed
			}()
			<-reading
			other := slidegate.Limit{Quota: 1, Window: time.Millisecond, Algorithm: slidegate.FixedWindow}
			if isFull(t, st, other) {
				t.Fatal("the idle shape was not dropped")
			}
			clock.Advance(200_000)
			if !allow(t, limiter, "key", limit.Quota).Allowed { // drops the other shape
				t.Fatal("refused after the window restarted")
			}
			close(goOn)
			if <-late {
				t.Error("admitted twice in one window")
			}
		})
	}
}

func bind(t testing.TB, limit slidegate.Limit) *store.Limit {
	t.Helper()
	return testkit.Must(adapter.Bind("", limit))(t)
}

// Prepared limits have space, whatever comes before and after them.
func TestPreparedShapesHaveSpace(t *testing.T) {
	for _, before := range []bool{false, true} {
		clock := storetest.NewClock(startMicros)
		st := open(t, memstore.Options{MaxLimits: 3, Now: clock.Now})
		others := windows(3, slidegate.FixedWindow)
		own := []slidegate.Limit{sliding(1, time.Hour), sliding(1, 24*time.Hour)}
		bound := []*store.Limit{bind(t, own[0]), bind(t, own[1])}
		if before {
			takeEach(t, st, others)
		}
		release := st.Prepare(bound)
		again := st.Prepare(bound[:1])
		if !before {
			takeEach(t, st, others)
		}
		if !isFull(t, st, slidegate.Limit{Quota: 1, Window: time.Minute}) {
			t.Fatal("the bound on other shapes differs from MaxLimits")
		}
		takeEach(t, st, own)
		release()
		release() // does nothing
		for _, limit := range own {
			if isFull(t, st, limit) {
				t.Errorf("%s: its space was released although its keys are live", limit)
			}
		}
		clock.Advance(30_000_000) // the other shapes are idle; those of the released limits are not
		if isFull(t, st, slidegate.Limit{Quota: 1, Window: time.Minute}) {
			t.Error("refused although there are idle shapes")
		}
		again()
	}
}

// A shape of a folder that is not requested takes no space from others.
func TestRestartOfManyShapes(t *testing.T) {
	for i, algorithm := range algorithms {
		clock := storetest.NewClock(startMicros)
		st := openFolder(t, memstore.Options{Now: clock.Now})
		limits := windows(200, algorithm)
		takeEach(t, st, limits)
		restored := restart(t, st, ways[i%2], memstore.Options{Now: clock.Now, MaxLimits: 3})
		for i := range 3 {
			if isFull(t, restored, slidegate.Limit{Quota: 1, Window: time.Duration(i+1) * time.Hour}) {
				t.Errorf("%v: no space for new shape %d, although those of the folder were not requested", algorithm, i)
			}
		}
		if allow(t, newLimiter(t, restored, limits[199]), "key", 1).Allowed {
			t.Errorf("%v: %s was admitted again after a restart", algorithm, limits[199])
		}
	}
}

// A clock may be near the epoch, as in tests and replays, and may be set back to there.
func TestRestartNearTheEpoch(t *testing.T) {
	for _, limit := range limitsOfAllForms(5) {
		for _, step := range []rule.Micros{1, 1000, 700_000, 20_000_000} {
			t.Run(fmt.Sprint(limit, " ", step), func(t *testing.T) {
				clock := storetest.NewClock(0)
				st := openFolder(t, memstore.Options{Now: clock.Now})
				limiter := newLimiter(t, st, limit)
				for i := range 24 {
					switch i {
					case 8:
						clock.Set(10 * rule.Micros(limit.Window.Microseconds()))
					case 16:
						clock.Set(1)
					}
					allow(t, limiter, "key", max(1, limit.Quota/5))
					clock.Advance(step)
					if i%4 != 0 {
						continue
					}
					restored := restart(t, st, ways[i/4%2], memstore.Options{Now: clock.Now})
					want, err := limiter.Peek(context.Background(), "key", 1)
					if err != nil {
						t.Fatal(err)
					}
					got, err := newLimiter(t, restored, limit).Peek(context.Background(), "key", 1)
					if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("at %d: after a restart %+v, %v, want %+v", clock.Now(), got, err, want)
					}
				}
			})
		}
	}
}
