package replay

import (
	"slices"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that the timeline counts every request in its bucket, with few enough buckets.

// plainTimeline counts times in the narrowest buckets that keep their number within the bound, starting with the bucket of the
// first time.
func plainTimeline(moments []rule.Micros) Timeline {
	width := widths[slices.IndexFunc(widths, func(width rule.Micros) bool {
		return !slices.ContainsFunc(moments, func(at rule.Micros) bool { return at/width-moments[0]/width >= 480 })
	})]
	line := Timeline{From: moments[0] / width * width, Width: width}
	for i, at := range moments {
		index := int(max(0, (at/width - moments[0]/width)))
		for len(line.Buckets) <= index {
			line.Buckets = append(line.Buckets, Bucket{})
		}
		if i%3 == 0 {
			line.Buckets[index].Refused++
		} else {
			line.Buckets[index].Admitted++
		}
	}
	return line
}

func TestTimelineIsAPlainCount(t *testing.T) {
	property(t, 800, func(t *rapid.T) {
		at := rapid.SampledFrom([]rule.Micros{1, 999, origin, origin - 1, rule.MaxNow - 400*24*hour}).Draw(t, "from")
		longest := rapid.IntRange(1, len(widths)-1).Draw(t, "longest step")
		var moments []rule.Micros
		var line timeline
		for range rapid.IntRange(1, 100).Draw(t, "requests") {
			step := widths[rapid.IntRange(0, longest-1).Draw(t, "step")]
			at += step * rule.Micros(rapid.Int64Range(-20, 400).Draw(t, "times")) / 10
			at = min(max(1, at), rule.MaxNow)
			moments = append(moments, at)
			if bucket := line.at(at); (len(moments)-1)%3 == 0 {
				bucket.Refused++
			} else {
				bucket.Admitted++
			}
			if len(line.buckets) > 480 {
				t.Fatalf("%d buckets", len(line.buckets))
			}
		}
		got, want := line.findings(), plainTimeline(moments)
		if got.From != want.From || got.Width != want.Width || !slices.Equal(got.Buckets, want.Buckets) {
			t.Fatalf("%v:\n%+v, want\n%+v", moments, got, want)
		}
	})
}

func TestTimelineByHand(t *testing.T) {
	var line timeline
	base := origin + 5*milli
	line.at(base).Admitted++
	line.at(base+999).Admitted++      // the same millisecond
	line.at(base+479*milli).Refused++ // the 480th bucket
	line.at(base-hour).Refused++      // before the first: counted in it
	if got := line.findings(); got.Width != milli || got.From != base || len(got.Buckets) != 480 || got.Buckets[0] != (Bucket{2, 1}) {
		t.Fatalf("%d buckets of %d from %d, the first %+v; want 480 of 1000 from %d, the first with 2 and 1",
			len(got.Buckets), got.Width, got.From, got.Buckets[0], base)
	}
	line.at(base+480*milli).Admitted++ // one too many: 10ms are the next width
	got := line.findings()
	// The first bucket begins at 0ms, so 479 + 5 and 480 + 5 lie in the one of 480ms.
	if got.Width != 10*milli || got.From != origin || len(got.Buckets) != 49 {
		t.Fatalf("%d buckets of %d from %d, want 49 of 10000 from %d", len(got.Buckets), got.Width, got.From, origin)
	}
	if got.Buckets[0] != (Bucket{2, 1}) || got.Buckets[48] != (Bucket{1, 1}) {
		t.Errorf("got first bucket %+v and last bucket %+v, want 2 and 1, 1 and 1", got.Buckets[0], got.Buckets[48])
	}
	line.at(rule.MaxNow).Admitted++ // two centuries on
	if got := line.findings(); len(got.Buckets) > maxBuckets || got.Buckets[0] != (Bucket{3, 2}) {
		t.Errorf("%d buckets, the first %+v; want all before in the first", len(got.Buckets), got.Buckets[0])
	}
}

func TestWidthsDivideEachOther(t *testing.T) {
	for i, width := range widths[1:] {
		if width%widths[i] != 0 || width == widths[i] {
			t.Errorf("%d does not divide %d", widths[i], width)
		}
	}
	if widths[len(widths)-1]*maxBuckets < rule.MaxNow {
		t.Errorf("got a maximum time of %d with the widest buckets, want %d", widths[len(widths)-1]*maxBuckets, rule.MaxNow)
	}
}
