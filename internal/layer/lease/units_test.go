package lease

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

func newLease(units int64) *lease {
	l := &lease{size: units}
	l.word.Store(uint64(units))
	return l
}

func TestLease(t *testing.T) {
	l := newLease(10)
	if left, ok := l.spend(4); !ok || left != 6 {
		t.Errorf("spent 4 of 10: %d left, %v", left, ok)
	}
	if _, ok := l.spend(7); ok {
		t.Error("spent 7 of 6")
	}
	if left, ok := l.spend(6); !ok || left != 0 {
		t.Errorf("spent 6 of 6: %d left, %v", left, ok)
	}
	if !l.unspend(6) {
		t.Error("want 6 units put back")
	}
	if left, spends := l.left(); left != 6 || spends != 1 {
		t.Errorf("got %d left after %d spends, want 6 after 1", left, spends)
	}
	if left, spends := l.close(); left != 6 || spends != 1 {
		t.Errorf("closed with %d left after %d spends, want 6 after 1", left, spends)
	}
	if left, _ := l.close(); left != 0 {
		t.Errorf("closed again with %d left: they would be returned twice", left)
	}
	if _, ok := l.spend(1); ok {
		t.Error("spent from a closed lease")
	}
	if l.unspend(1) {
		t.Error("put back into a closed lease")
	}
}

// A lease fills a cache line: data beside it would slow down the goroutines that spend it.
func TestLeaseIsACacheLine(t *testing.T) {
	if size := unsafe.Sizeof(lease{}); size != 64 && unsafe.Sizeof(uintptr(0)) == 8 {
		t.Errorf("a lease has %d bytes, want 64", size)
	}
}

// The count of spends uses the bits above the units. When it overflows, it wraps and leaves the other bits unchanged.
func TestLeaseCountRunsOver(t *testing.T) {
	l := newLease(maxUnits)
	l.word.Store(^closed&^uint64(maxUnits) | maxUnits)
	if left, ok := l.spend(1); !ok || left != maxUnits-1 {
		t.Fatalf("%d left, %v", left, ok)
	}
	if left, spends := l.left(); left != maxUnits-1 || spends != 0 {
		t.Errorf("%d left after %d spends", left, spends)
	}
	if left, _ := l.close(); left != maxUnits-1 {
		t.Errorf("closed with %d left", left)
	}
}

// Whatever goroutines do to a lease concurrently, every unit is either spent or left exactly once.
func TestLeaseAtOnce(t *testing.T) {
	for range 200 {
		const size = 1000
		l := newLease(size)
		var spent, back, left atomic.Int64
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for n := int64(1); n < 100; n++ {
					cost := 1 + n%3
					if _, ok := l.spend(cost); !ok {
						continue
					}
					spent.Add(cost)
					if n%5 != 0 {
						continue
					}
					spent.Add(-cost)
					if !l.unspend(cost) {
						back.Add(cost)
					}
				}
				if i%2 == 0 { // twice, and only one of them gets what is left
					units, _ := l.close()
					left.Add(units)
				}
			})
		}
		all.Wait()
		if sum := spent.Load() + back.Load() + left.Load(); sum != size {
			t.Fatalf("%d spent, %d to be returned and %d left add up to %d, want %d", spent.Load(), back.Load(), left.Load(), sum, size)
		}
	}
}
