package replay

import (
	"testing"

	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests compare a tally with a plain list.

type entry struct {
	at    rule.Micros
	units int64
}

// plainTally is a tally in a slice.
type plainTally []entry

func (p plainTally) sum() (n int64) {
	for _, e := range p {
		n += e.units
	}
	return n
}

// forget also moves everything back to now if the newest is more than a window ahead, as the rule does.
func (p *plainTally) forget(now, window rule.Micros) {
	if last := len(*p) - 1; last >= 0 && (*p)[last].at > now+window {
		for i := range *p {
			(*p)[i].at -= (*p)[last].at - now
		}
	}
	for len(*p) > 0 && (*p)[0].at <= now-window {
		*p = (*p)[1:]
	}
}

func (p *plainTally) add(at rule.Micros, units int64) {
	if units == 0 {
		return
	}
	if len(*p) > 0 {
		at = max(at, (*p)[len(*p)-1].at)
	}
	if len(*p) == 1 && (*p)[0].at == at {
		(*p)[0].units += units // units at the time of the oldest entry are added to it
		return
	}
	*p = append(*p, entry{at, units})
}

// drawGap returns a step in time: usually short, sometimes long or negative.
func drawGap(t *rapid.T, window rule.Micros) rule.Micros {
	switch rapid.IntRange(0, 8).Draw(t, "gap") {
	case 0:
		return 0
	case 8:
		return -rapid.SampledFrom([]rule.Micros{window, window + 1, 20 * window}).Draw(t, "far back")
	case 1:
		return rule.Micros(-rapid.Int64Range(0, int64(window)-1).Draw(t, "back"))
	case 2:
		return rapid.SampledFrom([]rule.Micros{window - 1, window, window + 1, 63, 64, 1 << 13, 1 << 40}).Draw(t, "edge")
	default:
		return rule.Micros(rapid.Int64Range(1, int64(max(1, window/30))).Draw(t, "on"))
	}
}

func TestTallyIsAPlainCount(t *testing.T) {
	property(t, 400, func(t *rapid.T) {
		var lent chunks
		window := rapid.SampledFrom([]rule.Micros{1_000, 60_000, 3_600_000_000, rule.MaxWindow}).Draw(t, "window")
		tallies, plain, now := [3]tally{}, [3]plainTally{}, [3]rule.Micros{origin, origin, 1}
		for range rapid.IntRange(1, 250).Draw(t, "steps") {
			i := rapid.IntRange(0, 2).Draw(t, "tally") // they share their chunks
			one, want := &tallies[i], &plain[i]
			now[i] = max(1, now[i]+drawGap(t, window))
			units := rapid.SampledFrom([]int64{1, 1, 1, 0, 2, 127, 128, 1 << 20, rule.MaxQuota}).Draw(t, "units")
			one.forget(&lent, now[i], window)
			want.forget(now[i], window)
			if one.sum != want.sum() {
				t.Fatalf("after forgetting at %d: got %d, want %d of %v", now[i], one.sum, want.sum(), *want)
			}
			one.add(&lent, now[i], units)
			want.add(now[i], units)
			if len(*want) > 0 && rapid.IntRange(0, 9).Draw(t, "drop") == 0 {
				one.drop(&lent)
				*want = (*want)[1:]
			}
			checkTally(t, one, *want)
		}
		for i := range tallies {
			for tallies[i].units != 0 {
				tallies[i].drop(&lent)
			}
			if tallies[i].sum != 0 || tallies[i].head != 0 || tallies[i].tail != 0 {
				t.Fatalf("got %+v for an empty tally", tallies[i])
			}
		}
		if free := countFree(&lent); free != int(lent.allocated) {
			t.Fatalf("got %d free chunks of %d, want all", free, lent.allocated)
		}
	})
}

func checkTally(t *rapid.T, one *tally, want plainTally) {
	t.Helper()
	if one.sum != want.sum() {
		t.Fatalf("got sum %d, want %d of %v", one.sum, want.sum(), want)
	}
	if len(want) == 0 {
		if one.units != 0 {
			t.Fatalf("got %+v, want an empty tally", one)
		}
		return
	}
	if first, last := want[0], want[len(want)-1]; one.units != first.units || one.oldest != first.at || one.newest != last.at {
		t.Fatalf("got %+v, want %v to %v", one, first, last)
	}
}

func countFree(c *chunks) (n int) {
	for at := c.free; at != 0; at = c.at(at).next {
		n++
	}
	return n
}

// The tally of a busy key reuses chunks; it does not allocate new ones forever.
func TestTalliesReleaseChunks(t *testing.T) {
	var lent chunks
	var tallies [50]tally
	const window = 100 * milli
	now := origin
	for range 20_000 {
		now += milli
		for i := range tallies {
			tallies[i].forget(&lent, now, window)
			tallies[i].add(&lent, now, 1)
			if want := min(100, (now-origin)/milli); rule.Micros(tallies[i].sum) != want {
				t.Fatalf("got %d units, want %d", tallies[i].sum, want)
			}
		}
	}
	// 99 entries of 2 bytes, 29 to a chunk, lie in at most 5 chunks: the first may be nearly read and the last nearly empty.
	if most := uint32(5 * len(tallies)); lent.allocated > most {
		t.Errorf("got %d chunks, want at most %d", lent.allocated, most)
	}
}

// Chunk numbers continue in the next block.
func TestTallyGrowsOverBlocks(t *testing.T) {
	var lent chunks
	var one tally
	const entries, apart = 3 * blockSize * chunkSize / 2, 64 // 64 apart, an entry is of 2 bytes
	for i := range rule.Micros(entries) {
		one.add(&lent, origin+apart*i, 1)
	}
	if one.sum != entries || len(lent.blocks) < 3 {
		t.Fatalf("%d units in %d blocks, want %d in 3 or more", one.sum, len(lent.blocks), entries)
	}
	newest := origin + apart*rule.Micros(entries-1)
	one.forget(&lent, newest, 10*apart) // the one exactly a window old is gone
	if one.sum != 10 || one.oldest != newest-9*apart {
		t.Errorf("got %d units since %d before the newest, want 10 since %d", one.sum, newest-one.oldest, 9*apart)
	}
}
