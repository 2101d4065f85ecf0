package lease

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

func newBlock(units int64) *block {
	b := &block{size: units}
	b.word.Store(uint64(units))
	return b
}

func TestBlock(t *testing.T) {
	b := newBlock(10)
	if left, ok := b.spend(4); !ok || left != 6 {
		t.Errorf("spent 4 of 10: %d left, %v", left, ok)
	}
	if _, ok := b.spend(7); ok {
		t.Error("spent 7 of 6")
	}
	if left, ok := b.spend(6); !ok || left != 0 {
		t.Errorf("spent 6 of 6: %d left, %v", left, ok)
	}
	if !b.unspend(6) {
		t.Error("could not put back 6")
	}
	if left, spends := b.left(); left != 6 || spends != 1 {
		t.Errorf("%d left after %d spends, want 6 after 1", left, spends)
	}
	if left, spends := b.close(); left != 6 || spends != 1 {
		t.Errorf("closed with %d left after %d spends, want 6 after 1", left, spends)
	}
	if left, _ := b.close(); left != 0 {
		t.Errorf("closed again with %d left: they would be given back twice", left)
	}
	if _, ok := b.spend(1); ok {
		t.Error("spent from a closed block")
	}
	if b.unspend(1) {
		t.Error("put back into a closed block")
	}
}

// A block has a cache line to itself: what others keep beside it would slow down those who spend it.
func TestBlockIsACacheLine(t *testing.T) {
	if size := unsafe.Sizeof(block{}); size != 64 && unsafe.Sizeof(uintptr(0)) == 8 {
		t.Errorf("a block has %d bytes, want 64", size)
	}
}

// The count of spends takes the bits above the units. When it runs over, it begins again and leaves the rest alone.
func TestBlockCountRunsOver(t *testing.T) {
	b := newBlock(mostUnits)
	b.word.Store(^closed&^uint64(mostUnits) | mostUnits)
	if left, ok := b.spend(1); !ok || left != mostUnits-1 {
		t.Fatalf("%d left, %v", left, ok)
	}
	if left, spends := b.left(); left != mostUnits-1 || spends != 0 {
		t.Errorf("%d left after %d spends", left, spends)
	}
	if left, _ := b.close(); left != mostUnits-1 {
		t.Errorf("closed with %d left", left)
	}
}

// Whatever goroutines do to a block at once, every unit is spent once or left once.
func TestBlockAtOnce(t *testing.T) {
	for range 200 {
		const size = 1000
		b := newBlock(size)
		var spent, back, left atomic.Int64
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for n := int64(1); n < 100; n++ {
					cost := 1 + n%3
					if _, ok := b.spend(cost); !ok {
						continue
					}
					spent.Add(cost)
					if n%5 != 0 {
						continue
					}
					spent.Add(-cost)
					if !b.unspend(cost) {
						back.Add(cost)
					}
				}
				if i%2 == 0 { // twice, and only one of them learns what is left
					units, _ := b.close()
					left.Add(units)
				}
			})
		}
		all.Wait()
		if sum := spent.Load() + back.Load() + left.Load(); sum != size {
			t.Fatalf("%d spent, %d to be given back and %d left come to %d, want %d", spent.Load(), back.Load(), left.Load(), sum, size)
		}
	}
}
