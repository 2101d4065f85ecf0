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
		window := rapid.SampledFrom([]rule.Micros{1_000, 60_000, 3_600_000_000, rule.MaxWindow}).Draw(t, "window")
		tallies, plain, now := [3]tally{}, [3]plainTally{}, [3]rule.Micros{origin, origin, 1}
		for range rapid.IntRange(1, 250).Draw(t, "steps") {
			i := rapid.IntRange(0, 2).Draw(t, "tally")
			one, want := &tallies[i], &plain[i]
			now[i] = max(1, now[i]+drawGap(t, window))
			units := rapid.SampledFrom([]int64{1, 1, 1, 0, 2, 127, 128, 1 << 20, rule.MaxQuota}).Draw(t, "units")
			one.forget(now[i], window)
			want.forget(now[i], window)
			if one.sum != want.sum() {
				t.Fatalf("after forgetting at %d: got %d, want %d of %v", now[i], one.sum, want.sum(), *want)
			}
			one.add(now[i], units)
			want.add(now[i], units)
			if len(*want) > 0 && rapid.IntRange(0, 9).Draw(t, "drop") == 0 {
				one.drop()
				*want = (*want)[1:]
			}
			checkTally(t, one, *want)
		}
		for i := range tallies {
			for tallies[i].units != 0 {
				tallies[i].drop()
			}
			if tallies[i].sum != 0 || len(tallies[i].later) != 0 {
				t.Fatalf("got %+v for an empty tally", tallies[i])
			}
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

// The tally of a busy key reuses its memory; it does not grow forever.
func TestTalliesReleaseMemory(t *testing.T) {
	var one tally
	const window = 100 * milli
	now := origin
	for range 20_000 {
		now += milli
		one.forget(now, window)
		one.add(now, 1)
		if want := min(100, (now-origin)/milli); rule.Micros(one.sum) != want {
			t.Fatalf("got %d units, want %d", one.sum, want)
		}
	}
	if size := cap(one.later); size > 4*99*2 { // 99 entries of 2 bytes
		t.Errorf("got %d bytes, want a few hundred", size)
	}
}
