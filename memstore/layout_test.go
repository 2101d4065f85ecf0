package memstore

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/slidegate/slidegate/rule"
)

// unpack is the inverse of pack for whatever pack accepts: no field runs into another, and none wraps around.
func TestPackIsExactOrRejects(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	const now = rule.Micros(1_767_225_600_000_000)
	for _, window := range []time.Duration{
		time.Millisecond, 7 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 366 * 24 * time.Hour, 5 * 366 * 24 * time.Hour,
	} {
		for _, algorithm := range []rule.Algorithm{rule.SlidingWindow, rule.FixedWindow} {
			limit, err := rule.Limit{Algorithm: algorithm, Quota: 1, Window: rule.Micros(window.Microseconds())}.Normalize()
			if err != nil {
				t.Fatal(err)
			}
			y := newLayout(&limit, now)
			packed := 0
			for range 20_000 {
				s := rule.State{Counts: make([]int64, limit.Parts())}
				for i := range s.Counts {
					s.Counts[i] = random.Int64() >> (10 + random.IntN(54))
				}
				start := now + rule.Micros((random.Int64()>>(11+random.IntN(50)))*(1-2*random.Int64N(2)))
				s.Start = max(0, start) / limit.Window * limit.Window
				word, ok := y.pack(&s)
				if !ok {
					continue
				}
				packed++
				got := rule.State{Counts: make([]int64, limit.Parts())}
				y.unpack(word|y.owner, &got)
				if word == locked || word&y.owner != 0 {
					t.Fatalf("%v: %+v packs into %x, want neither %x nor the owner's bit %x", window, s, word, locked, y.owner)
				}
				if got.Start != s.Start || got.Counts[0] != s.Counts[0] || got.Counts[len(got.Counts)-1] != s.Counts[len(s.Counts)-1] {
					t.Fatalf("%v: got %+v, want %+v", window, got, s)
				}
			}
			if packed < 100 {
				t.Errorf("%v: only %d states could be packed", window, packed)
			}
		}
	}
}

func TestPagesFillTheirAllocations(t *testing.T) {
	if got := unsafe.Sizeof(page{}); got != pageBytes {
		t.Errorf("a page has %d bytes, want %d", got, pageBytes)
	}
	if got := unsafe.Offsetof(page{}.lines) % 64; got != 0 {
		t.Errorf("slots begin %d bytes into a cache line", got)
	}
	pages := make([]*page, 100) // not on the stack
	for i := range pages {
		pages[i] = newPage(0, false)
		if at := uintptr(unsafe.Pointer(pages[i])); at%lineBytes != 0 {
			t.Fatalf("a page begins %d bytes into a cache line", at%lineBytes)
		}
	}
	runtime.KeepAlive(pages)
}
