package slidegate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/store"
)

// late is a store in process that answers after a while, so that slots are released while it is asked.
type late struct{ store.Store }

func (l *late) Unwrap() store.Store { return l.Store }

func (l *late) Apply(ctx context.Context, batch []store.Request) error {
	err := l.Store.Apply(ctx, batch)
	testkit.Delay(time.Millisecond)
	return err
}

// A semaphore: who waits for a slot gets it as soon as one is released, in turn, and nobody asks in the meantime.
func TestAcquireWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		over  func(store.Store) store.Store
		slack time.Duration
	}{
		{"memory", func(s store.Store) store.Store { return s }, 0},
		{"memory that answers late", func(s store.Store) store.Store { return &late{s} }, 4 * time.Millisecond},
		{"a store with round trips", func(s store.Store) store.Store { return &slow{s} }, 20 * time.Millisecond},
	} {
		inBubble(t, func(t *testing.T, inner store.Store) {
			const workers, slots, work = 20, 2, 90 * time.Second
			counted := &counting{Store: c.over(inner)}
			limiter := newLimiter(t, counted, slidegate.Slots(slots, time.Minute)) // the work takes longer than a slot is held unless it is renewed
			var mu sync.Mutex
			var order []int
			var busy, most atomic.Int64
			var all sync.WaitGroup
			took := timed(func() {
				for i := range workers {
					all.Go(func() {
						alive, release, err := limiter.AcquireWait(t.Context(), "k", 0)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						order = append(order, i)
						mu.Unlock()
						most.Store(max(most.Load(), busy.Add(1)))
						select {
						case <-alive.Done():
							t.Errorf("%s: lost: %v", c.name, context.Cause(alive))
						case <-time.After(work):
						}
						busy.Add(-1)
						release()
					})
					if i < slots {
						testkit.Pass(50 * time.Millisecond)
					} else {
						synctest.Wait()
					}
				}
				all.Wait()
			})
			if !slices.IsSorted(order) || most.Load() > slots {
				t.Errorf("%s: served in the order %v, %d at a time", c.name, order, most.Load())
			}
			if want := workers / slots * work; took < want || took > want+workers*(c.slack+50*time.Millisecond) {
				t.Errorf("%s: took %v, want %v", c.name, took, want)
			}
		})
	}
}

// Who leaves while the store is asked for a slot keeps none, and the others go on.
func TestAcquireWaitIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, inner store.Store) {
		limiter := newLimiter(t, &slow{inner}, slidegate.Slots(1, time.Minute))
		if _, _, err := limiter.AcquireWait(t.Context(), "k", -time.Second); err == nil || !strings.Contains(err.Error(), "wait: must not be negative") {
			t.Errorf("a negative wait: got %v", err)
		}
		_, release, err := limiter.AcquireWait(t.Context(), "k", 0)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				if _, _, err := limiter.AcquireWait(t.Context(), "k", time.Duration(i)*3*time.Millisecond+time.Second); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no slot was free within") {
					t.Errorf("%v, want the end of the wait", err)
				}
			})
		}
		testkit.Pass(time.Second)
		all.Wait()
		release()
		took := timed(func() {
			_, last, err := limiter.AcquireWait(t.Context(), "k", 0)
			if err != nil {
				t.Fatal(err)
			}
			last()
		})
		if took > 100*time.Millisecond {
			t.Errorf("the slot was free after %v", took)
		}
	})
}
