package lease_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// playLimit is a limit of a play, with all of its values there, which share their counts.
type playLimit struct {
	kind   string
	values []*store.Limit
}

// randomLimit returns a limit of any kind, with that many values.
func (w *world) randomLimit(name string, values int) playLimit {
	base, kind := w.randomValue()
	l := playLimit{kind: kind}
	for range values {
		value := base
		value.Name = name
		if l.values != nil {
			value.Quota, value.Burst, value.Overlap = w.otherValue(base)
		}
		written, err := adapter.Bind("", value)
		if err != nil {
			w.t.Fatalf("seed %d: %v: %v", w.seed, value, err)
		}
		value.Lease = true
		bound, err := adapter.Bind("", value)
		if err != nil { // it cannot be leased, so it is not
			bound = written
			l.kind = "not leased"
		}
		for _, v := range l.values { // the layer spends a lease of one under the other, so the judge treats them as one as well
			if *v.Rule() == *bound.Rule() {
				bound = v
			}
		}
		w.written[bound] = asWritten(written, bound)
		l.values = append(l.values, bound)
	}
	return l
}

// asWritten returns the limit that the judge applies: without the reserve of a leased bucket. Lease keeps the default in parts, where
// units that are given back are found by their part.
func asWritten(written, bound *store.Limit) rule.Limit {
	r := *written.Rule()
	if r.Algorithm == rule.DefaultAlgorithm {
		r.Lease = bound.Rule().Lease
	}
	return r
}

// randomValue returns a limit that a handful of callers can exhaust within seconds.
func (w *world) randomValue() (l slidegate.Limit, kind string) {
	rate := math.Pow(10, 2+2*w.rand.Float64()) // units per second
	l.Window = time.Duration(math.Pow(10, 5+2*w.rand.Float64())) * time.Microsecond
	l.Algorithm = slidegate.SlidingWindow
	switch n := w.rand.IntN(18); {
	case n < 2: // with parts of a quarter of a second or more; small quotas too, which would be a log without a lease
		l.Algorithm, kind = rule.DefaultAlgorithm, "default"
		l.Window = time.Duration(pick(w.rand, 15_000, 15_001, 20_000, 60_000)) * time.Millisecond
		l.Quota = int64(math.Pow(10, 1+3*w.rand.Float64()))
		return l, kind
	case n < 11:
		l.Segments = pick(w.rand, 1, 1, 2, 3, 4, 6, 10, 16, 32, 60, 64)
		l.Overlap = pick(w.rand, rule.OverlapUp, slidegate.OverlapDown, slidegate.OverlapWhole)
		part := max(l.Window/time.Duration(l.Segments), time.Millisecond).Truncate(time.Microsecond)
		l.Window = part * time.Duration(l.Segments)
		kind = "sliding " + l.Overlap.String() + ", " + partsName(l.Segments)
	case n < 12:
		l.Algorithm, kind = slidegate.FixedWindow, "fixed"
	case n < 13:
		l.Algorithm, l.Window, kind = slidegate.FixedWindow, 0, "calendar"
		l.Calendar = pick(w.rand, rule.Day, rule.Week, rule.Month, rule.Year)
		l.Zone = pick(w.rand, "", "Europe/Berlin", "America/St_Johns")
		l.Quota = int64(rate) + 8
		return l, kind
	case n < 16:
		l.Algorithm, kind = slidegate.TokenBucket, "bucket"
		rate /= 4
	case n < 17:
		l.Algorithm, kind = slidegate.SlidingLog, "log"
		rate = min(rate, 200) // a log holds 10,000 at most, also of the largest value
	default:
		l.Anchor, l.Segments, kind = slidegate.AnchorFirst, pick(w.rand, 1, 4), "first"
		l.Window = l.Window.Truncate(4 * time.Microsecond)
	}
	l.Quota = int64(rate*l.Window.Seconds()) + 8
	if l.Algorithm == slidegate.TokenBucket {
		least := 4 * int64(rate/10+2)
		l.Burst = least + w.rand.Int64N(4*least)
	}
	return l, kind
}

// otherValue changes what may change without changing the address: the quota, or the burst, and the overlap.
func (w *world) otherValue(l slidegate.Limit) (quota, burst int64, overlap rule.Overlap) {
	by := pick(w.rand, 0.25, 0.5, 0.9, 1.1, 2, 4)
	switch l.Algorithm {
	case slidegate.TokenBucket:
		// Not the rate: what was refilled would depend on the caller. And a bucket is overdrawn by a window's refill at
		// most.
		return l.Quota, l.Burst + w.rand.Int64N(l.Quota+1), l.Overlap
	case slidegate.SlidingWindow:
		l.Overlap = pick(w.rand, l.Overlap, l.Overlap, rule.OverlapUp, slidegate.OverlapDown, slidegate.OverlapWhole)
	}
	return max(1, int64(float64(l.Quota)*by)), 0, l.Overlap
}

func partsName(parts int) string {
	switch {
	case parts == 1:
		return "1 part"
	case parts < 10:
		return "2 to 9 parts"
	default:
		return "10 to " + strconv.Itoa(rule.MaxSegments) + " parts"
	}
}

// pick returns one of several.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
