package replay

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/rule"
)

const (
	maxSweep    = 200 // quotas in one sweep
	rangePoints = 24  // the approximate number of quotas of a range without a step
)

// ParseSweep parses the quotas of a sweep: a range, which is divided into round numbers (10..1000), a range with a step
// (10..1000:10), or a list (10,20,50).
func ParseSweep(text string) ([]int64, error) {
	from, to, isRange := strings.Cut(text, "..")
	var quotas []int64
	if !isRange {
		for item := range strings.SplitSeq(text, ",") {
			n, err := sweepQuota(item)
			if err != nil {
				return nil, err
			}
			quotas = append(quotas, n)
		}
	} else {
		to, step, hasStep := strings.Cut(to, ":")
		low, err := sweepQuota(from)
		if err != nil {
			return nil, err
		}
		high, err := sweepQuota(to)
		if err != nil {
			return nil, err
		}
		if high <= low {
			return nil, invalid("Sweep", "%d..%d: the smaller quota must come first", low, high)
		}
		if !hasStep {
			return SweepRange(low, high), nil
		}
		by, err := sweepQuota(step)
		if err != nil {
			return nil, err
		}
		if (high-low)/by >= maxSweep {
			return nil, invalid("Sweep", "%s has %d quotas; the maximum is %d; use a larger step", text, (high-low)/by+1, maxSweep)
		}
		for n := low; n <= high; n += by {
			quotas = append(quotas, n)
		}
	}
	slices.Sort(quotas)
	quotas = slices.Compact(quotas)
	if len(quotas) > maxSweep {
		return nil, invalid("Sweep", "too many quotas: %d; the maximum is %d", len(quotas), maxSweep)
	}
	return quotas, nil
}

func sweepQuota(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(text), "_", ""), 10, 64)
	if err != nil || n < 1 || n > rule.MaxQuota {
		return 0, invalid("Sweep", "invalid quota %q; want 10..1000, 10..1000:10 or 10,20,50", text)
	}
	return n, nil
}

// SweepRange returns quotas from low to high that grow by about the same factor; those in between are round numbers.
func SweepRange(low, high int64) []int64 {
	if high <= low {
		return []int64{low}
	}
	quotas := []int64{low}
	factor := math.Pow(float64(high)/float64(low), 1.0/(rangePoints-1))
	for i := 1; i < rangePoints-1; i++ {
		n := roundTwoDigits(float64(low) * math.Pow(factor, float64(i)))
		if n > quotas[len(quotas)-1] && n < high {
			quotas = append(quotas, n)
		}
	}
	return append(quotas, high)
}

// roundTwoDigits returns x rounded to two significant digits.
func roundTwoDigits(x float64) int64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return int64(math.Round(math.Round(x/max(1, unit)) * max(1, unit)))
}

// sweepRuns returns one run per quota of the first limit, with the other limits unchanged.
func sweepRuns(groups []routing.Group, quotas []int64) ([]*run, error) {
	var runs []*run
	for _, quota := range quotas {
		changed := slices.Clone(groups)
		changed[0].Limits = slices.Clone(changed[0].Limits)
		changed[0].Limits[0] = withQuota(changed[0].Limits[0], quota)
		r, err := newRun("", changed, false)
		if err != nil {
			return nil, invalid("Sweep", "quota %d: %w", quota, reason(err))
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// withQuota returns a limit with another quota.
func withQuota(limit slidegate.Limit, quota int64) slidegate.Limit {
	if limit.Burst == limit.Quota {
		limit.Burst = 0 // a burst equal to the quota remains so
	}
	limit.Quota = quota
	return limit
}

func sweepFindings(runs []*run) *Sweep {
	s := &Sweep{}
	for _, r := range runs {
		s.Points = append(s.Points, SweepPoint{
			Quota: r.groups[0].Limits[0].Quota, Admitted: r.admitted, Refused: r.refused, KeysTouched: r.touched,
		})
	}
	s.Knee = knee(s.Points)
	return s
}

// knee returns the index of the point at which the curve of refusals over the logarithm of the quota bends most: the one
// furthest below the straight line between its ends. It is -1 for a curve that hardly bends.
func knee(points []SweepPoint) int {
	const least = 0.1 // the smallest bend that counts, as a share of the height of the curve
	last := len(points) - 1
	if last < 2 || points[0].Refused == points[last].Refused {
		return -1
	}
	x := func(i int) float64 { return math.Log(float64(points[i].Quota)) }
	y := func(i int) float64 { return float64(points[i].Refused) }
	best, furthest := -1, least
	for i := 1; i < last; i++ {
		along := (x(i) - x(0)) / (x(last) - x(0))
		fallen := (y(0) - y(i)) / (y(0) - y(last))
		if bend := fallen - along; bend > furthest {
			best, furthest = i, bend
		}
	}
	return best
}
