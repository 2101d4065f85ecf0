package coalesce_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// BenchmarkLone measures what the layer costs a lone caller, over a store without round trips.
func BenchmarkLone(b *testing.B) {
	memory := newMemory(b, nil)
	limit := bind(b, slidegate.PerHour(1_000_000))
	for _, c := range []struct {
		name  string
		store store.Store
	}{
		{"without", memory},
		{"with", newStore(b, memory, coalesce.Options{})},
	} {
		b.Run("TakeSingle/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			taker := c.store.(store.SingleTaker)
			for b.Loop() {
				_, _, _, _, _, _, _ = taker.TakeSingle(b.Context(), limit, "key", 1)
			}
		})
		b.Run("Apply/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			batch := []store.Request{take(limit, "key", 1)}
			for b.Loop() {
				_ = c.store.Apply(b.Context(), batch)
			}
		})
	}
}

// BenchmarkRoundTrip measures the decisions per second that some callers get from a store 200 microseconds away, which
// works on one call at a time, as Redis does: 10 or 50 microseconds per call, and 1 per request in it.
func BenchmarkRoundTrip(b *testing.B) {
	for _, work := range []time.Duration{10 * time.Microsecond, 50 * time.Microsecond} {
		for _, callers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("call=%v/callers=%d/without", work, callers), func(b *testing.B) {
				remote := newDistant(b, work)
				benchmarkCallers(b, remote, remote, callers)
			})
			for _, inFlight := range []int{1, 2, 4, 8, 16} {
				b.Run(fmt.Sprintf("call=%v/callers=%d/InFlight=%d", work, callers, inFlight), func(b *testing.B) {
					remote := newDistant(b, work)
					benchmarkCallers(b, newStore(b, remote, coalesce.Options{InFlight: inFlight}), remote, callers)
				})
			}
		}
	}
}

func benchmarkCallers(b *testing.B, st store.Store, remote *distant, callers int) {
	limit := bind(b, slidegate.PerHour(1_000_000))
	keys := make([]string, callers)
	for i := range keys {
		keys[i] = fmt.Sprint("key-", i)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for _, key := range keys {
		all.Go(func() {
			batch := []store.Request{take(limit, key, 1)}
			for left.Add(-1) >= 0 {
				if err := st.Apply(context.Background(), batch); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(b.N)/float64(remote.calls.Load()), "requests/call")
}

// distant is a store on the other side of a network. Timers are too coarse for a round trip of 200 microseconds, so one
// goroutine polls the clock and wakes the calls that are due.
type distant struct {
	*memstore.Store
	work  time.Duration // per call
	calls atomic.Int64

	mu    sync.Mutex
	idle  time.Time // when the server will be idle
	trips []trip    // in the order in which they end
}

type trip struct {
	end  time.Time
	done chan struct{}
}

func newDistant(b *testing.B, work time.Duration) *distant {
	d := &distant{Store: newMemory(b, nil), work: work}
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for !stop.Load() {
			d.wake()
			runtime.Gosched()
		}
	})
	b.Cleanup(func() {
		stop.Store(true)
		all.Wait()
	})
	return d
}

func (d *distant) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for len(d.trips) > 0 && !d.trips[0].end.After(now) {
		close(d.trips[0].done)
		d.trips = d.trips[1:]
	}
}

func (d *distant) Apply(ctx context.Context, batch []store.Request) error {
	d.calls.Add(1)
	done := make(chan struct{})
	d.mu.Lock()
	arrival := time.Now().Add(100 * time.Microsecond)
	if d.idle.Before(arrival) {
		d.idle = arrival
	}
	d.idle = d.idle.Add(d.work + time.Duration(len(batch))*time.Microsecond)
	d.trips = append(d.trips, trip{d.idle.Add(100 * time.Microsecond), done})
	d.mu.Unlock()
	<-done
	return d.Store.Apply(ctx, batch)
}
