package rule

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The packed ring of a Log equals a plain list of times, and stays within its size.

const longestNarrow = Micros(math.MaxUint32) // the longest window whose times fit in four bytes

// ringPair is a Log and the plain list that it must equal.
type ringPair struct {
	log    Log
	times  []Micros
	window Micros
	quota  int64
	most   int // the largest number of units it ever held
}

func (p *ringPair) check(t tb) {
	t.Helper()
	if got := p.log.times(); !slices.Equal(got, p.times) {
		t.Fatalf("window %d, quota %d\nthe ring has %v\nthe list is  %v", p.window, p.quota, got, p.times)
	}
	if p.log.Len() != len(p.times) || p.log.empty() != (len(p.times) == 0) {
		t.Fatalf("got %d units, empty %v, want %d", p.log.Len(), p.log.empty(), len(p.times))
	}
	if n := len(p.times); n > 0 && p.log.newest() != p.times[n-1] {
		t.Fatalf("newest: got %d, want %d", p.log.newest(), p.times[n-1])
	}
	if int64(p.log.Len()) > p.quota {
		t.Fatalf("got %d units with a quota of %d", p.log.Len(), p.quota)
	}
	p.most = max(p.most, len(p.times))
	if size, most := ringBytes(&p.log), 8*p.most+ringSlack; size > most {
		t.Fatalf("got %d bytes for at most %d units, want at most %d", size, p.most, most)
	}
}

// ringSlack is what a ring may take in addition to 8 bytes per unit: its header, and a few bytes of rounding by the
// allocator.
const ringSlack = 16

// ringBytes returns the size of the block that holds a ring.
func ringBytes(g *Log) int {
	if g.ring == nil {
		return 0
	}
	h := g.header()
	return headerSize + int(h.capacity)*int(h.width)
}

func (p *ringPair) liveAfter(m Micros) (n int64) {
	for _, at := range p.times {
		if at > m {
			n++
		}
	}
	return n
}

// add charges both: it drops what has expired, then appends.
func (p *ringPair) add(at Micros, n int64) {
	p.log.keep(p.log.liveAfter(at - p.window))
	p.times = slices.DeleteFunc(p.times, func(m Micros) bool { return m <= at-p.window })
	p.log.add(at, n, p.window, p.quota)
	for range n {
		p.times = append(p.times, at)
	}
	p.times = p.times[max(0, len(p.times)-int(p.quota)):]
}

func (p *ringPair) drawAdd(t *rapid.T) {
	at := drawOrigin(t, &Limit{Window: p.window})
	if n := len(p.times); n > 0 {
		at = p.times[n-1]
		switch rapid.IntRange(0, 4).Draw(t, "gap") {
		case 0:
		case 1:
			at += draw(t, "gap", 0, p.window/4)
		case 2:
			at += spread(t, "gap", 0, p.window/Micros(p.quota))
		case 3: // where the oldest is about to expire
			at = max(at, p.times[0]+p.window-Micros(rapid.Int64Range(-1, 1).Draw(t, "beside")))
		case 4: // far beyond, also where low bytes repeat
			at += spread(t, "gap", 0, 2*p.window) + oneOf[Micros](t, "turn", 0, 1<<32, 1<<48)
		}
	}
	p.add(at, clamp(draw(t, "units", 0, p.quota), 0, p.quota))
}

func (p *ringPair) drawRemove(t *rapid.T) {
	if len(p.times) == 0 {
		return
	}
	at := p.times[rapid.IntRange(0, len(p.times)-1).Draw(t, "unit")]
	there := p.liveAfter(at-1) - p.liveAfter(at)
	n := rapid.Int64Range(1, there).Draw(t, "units")
	p.log.remove(at, n, p.window)
	first := slices.Index(p.times, at)
	p.times = slices.Delete(p.times, first, first+int(n))
}

func (p *ringPair) drawKeep(t *rapid.T) {
	n := rapid.Int64Range(0, p.quota).Draw(t, "units")
	p.log.keep(n)
	p.times = slices.Clone(p.times[max(0, len(p.times)-int(n)):])
}

// drawMoveBack moves both back, possibly to before the epoch: newest to now, and now is never before it.
func (p *ringPair) drawMoveBack(t *rapid.T) {
	if len(p.times) == 0 {
		return
	}
	by := draw(t, "by", 0, max(0, p.times[len(p.times)-1]))
	p.log.moveBack(by, p.window)
	for i := range p.times {
		p.times[i] -= by
	}
}

func drawRing(t *rapid.T) ringPair {
	p := ringPair{quota: draw[int64](t, "quota", 1, 30)}
	if rapid.IntRange(0, 49).Draw(t, "large") == 49 {
		p.quota = draw[int64](t, "large quota", 1, MaxLogQuota)
	}
	p.window = oneOf(t, "window", minWindow, minute, longestNarrow, longestNarrow+2, MaxWindow, draw(t, "window", minWindow, MaxWindow))
	return p
}

func TestRingSameAsList(t *testing.T) {
	property(t, 800, func(t *rapid.T) {
		p := drawRing(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			copied := p.log.clone()
			before := copied.times()
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 4:
				p.drawRemove(t)
			case 5:
				p.drawKeep(t)
			case 6:
				p.drawMoveBack(t)
			default:
				p.drawAdd(t)
			}
			p.check(t)
			if !slices.Equal(copied.times(), before) {
				t.Fatalf("the clone changed from %v to %v", before, copied.times())
			}
			if n := len(p.times); n > 0 {
				at := p.times[rapid.IntRange(0, n-1).Draw(t, "unit")] + Micros(rapid.Int64Range(-1, 1).Draw(t, "beside"))
				if got, want := p.log.liveAfter(at), p.liveAfter(at); got != want {
					t.Fatalf("got %d units after %d, want %d of %v", got, at, want, p.times)
				}
			}
		}
	})
}

// A log made from times decides like the list of them, even if some expired long ago.
func TestLogOfTimes(t *testing.T) {
	property(t, 1_000, func(t *rapid.T) {
		window := oneOf(t, "window", minWindow, minute, longestNarrow, longestNarrow+2, MaxWindow)
		at, times := drawOrigin(t, &Limit{Window: window}), []Micros(nil)
		for range rapid.IntRange(0, 20).Draw(t, "units") {
			times = append(times, at)
			at += draw(t, "gap", 0, window/2) + oneOf[Micros](t, "turn", 0, 0, 0, 0, 1<<32, 1<<48)
		}
		quota := rapid.Int64Range(1, 20).Draw(t, "quota")
		log := logOf(times, window, quota)
		newest := slices.Clone(times[max(0, len(times)-int(quota)):])
		for range 5 {
			if len(times) == 0 {
				break
			}
			now := times[len(times)-1] + draw(t, "later", 0, window+1)
			want := int64(0)
			for _, m := range newest {
				if m > now-window {
					want++
				}
			}
			if got := log.liveAfter(now - window); got != want {
				t.Fatalf("window %d, quota %d: %d of %v are live at %d, want %d", window, quota, got, times, now, want)
			}
		}
	})
}

// Filled one by one and in strides, around and around, a ring never takes more than 8 bytes per unit.
func TestRingTakesEightBytesPerUnit(t *testing.T) {
	for _, window := range []Micros{minute, longestNarrow, longestNarrow + 1, MaxWindow} {
		for _, quota := range []int64{1, 2, 3, 9, 10, 100, 1_000, 5_000, 9_999, MaxLogQuota} {
			for _, stride := range []int64{1, 2, 7, 64} {
				fillRing(t, window, quota, min(stride, quota))
			}
		}
	}
}

func fillRing(t *testing.T, window Micros, quota, stride int64) {
	t.Helper()
	var g Log
	now := Micros(1_767_000_000_000_000)
	for added := int64(0); added < 2*quota; added += stride {
		g.add(now, stride, window, quota)
		now++
		units := int64(g.Len())
		if want := min(quota, added+stride); units != want {
			t.Fatalf("window %d, quota %d: %d units after %d, want %d", window, quota, units, added+stride, want)
		}
		if size := ringBytes(&g); size > 8*int(units)+ringSlack {
			t.Fatalf("window %d, quota %d: %d bytes for %d units, %.2f each", window, quota, size, units, float64(size)/float64(units))
		}
	}
}

// The same for a ring that is made in one step, of any size.
func TestNewRingTakesEightBytesPerUnit(t *testing.T) {
	for _, window := range []Micros{longestNarrow, longestNarrow + 1} {
		for n := int64(1); n <= MaxLogQuota; n++ {
			g := logOf([]Micros{0}, window, MaxLogQuota)
			g.reserve(int(n)-1, window, MaxLogQuota)
			if size := ringBytes(&g); size > 8*int(n)+ringSlack {
				t.Fatalf("window %d: %d bytes for %d units at once, %.2f each", window, size, n, float64(size)/float64(n))
			}
		}
	}
}

// A store keeps two words of a log in addition to the ring itself.
func TestRingGrowsOnlyAsItFills(t *testing.T) {
	l := normal(t, Limit{Algorithm: SlidingLog, Quota: MaxLogQuota, Window: minute, CountRefused: true})
	var s State
	l.TakeOne(&s, 0, 1)
	if size := ringBytes(&s.Log); size != 0 {
		t.Errorf("one unit takes a ring of %d bytes, want none", size)
	}
	for now := range 100_000 * micro { // a client that hammers does not grow the state beyond the quota
		l.TakeOne(&s, now, 1)
	}
	if size := ringBytes(&s.Log); size > 8*MaxLogQuota {
		t.Errorf("after a hundred thousand requests, the ring takes %d bytes", size)
	}
}
