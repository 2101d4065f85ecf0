package replay

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
	"github.com/slidegate/slidegate/rule"
)

const (
	maxSweep      = 200 // quotas in one sweep
	steppedPoints = 24  // about how many quotas a range without a step is cut into
)

// ParseSweep reads the quotas of a sweep: a range that is cut into round numbers (10..1000), a range with a step
// (10..1000:10), or a list (10,20,50).
func ParseSweep(text string) ([]int64, error) {
	from, to, ranged := strings.Cut(text, "..")
	var quotas []int64
	if !ranged {
		for item := range strings.SplitSeq(text, ",") {
			n, err := sweepQuota(item)
			if err != nil {
				return nil, err
			}
			quotas = append(quotas, n)
		}
	} else {
		to, step, stepped := strings.Cut(to, ":")
		low, err := sweepQuota(from)
		if err != nil {
			return nil, err
		}
		high, err := sweepQuota(to)
		if err != nil {
			return nil, err
		}
		if high <= low {
			return nil, invalid("Sweep", "%d..%d does not rise: write the smaller quota first", low, high)
		}
		if !stepped {
			return SweepRange(low, high), nil
		}
		by, err := sweepQuota(step)
		if err != nil {
			return nil, err
		}
		if (high-low)/by >= maxSweep {
			return nil, invalid("Sweep", "%s has %d quotas; the most is %d: make the step larger", text, (high-low)/by+1, maxSweep)
		}
		for n := low; n <= high; n += by {
			quotas = append(quotas, n)
		}
	}
	slices.Sort(quotas)
	quotas = slices.Compact(quotas)
	if len(quotas) > maxSweep {
		return nil, invalid("Sweep", "%d quotas are too many; the most is %d", len(quotas), maxSweep)
	}
	return quotas, nil
}

func sweepQuota(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(text), "_", ""), 10, 64)
	if err != nil || n < 1 || n > rule.MaxQuota {
		return 0, invalid("Sweep", "%q is not a quota: write 10..1000, 10..1000:10 or 10,20,50", text)
	}
	return n, nil
}

// SweepRange returns quotas from low to high that rise by about the same factor: round numbers between the two ends.
func SweepRange(low, high int64) []int64 {
	if high <= low {
		return []int64{low}
	}
	quotas := []int64{low}
	factor := math.Pow(float64(high)/float64(low), 1.0/(steppedPoints-1))
	for i := 1; i < steppedPoints-1; i++ {
		n := rounded(float64(low) * math.Pow(factor, float64(i)))
		if n > quotas[len(quotas)-1] && n < high {
			quotas = append(quotas, n)
		}
	}
	return append(quotas, high)
}

// rounded returns x with two digits that count.
func rounded(x float64) int64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return int64(math.Round(math.Round(x/max(1, unit)) * max(1, unit)))
}

// swept returns a run for every quota of the first limit, the others left as they are.
func swept(groups []facing.Group, quotas []int64) ([]*run, error) {
	var runs []*run
	for _, quota := range quotas {
		those := slices.Clone(groups)
		those[0].Limits = slices.Clone(those[0].Limits)
		those[0].Limits[0] = withQuota(those[0].Limits[0], quota)
		r, err := newRun("", those, false)
		if err != nil {
			return nil, invalid("Sweep", "quota %d: %w", quota, otherQuota(groups[0].Limits[0], err))
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// withQuota returns a limit with another quota, counted as before: a default that depends on the quota stays what it was, so
// that quotas are compared and not algorithms.
func withQuota(limit slidegate.Limit, quota int64) slidegate.Limit {
	other := limit
	if other.Burst == other.Quota {
		other.Burst = 0 // a bucket as large as the quota stays so
	}
	other.Quota = quota
	return facing.Like(other, limit)
}

// otherQuota explains why a limit cannot have another quota.
func otherQuota(limit slidegate.Limit, err error) error {
	bound, _ := slidegate.Bind("", limit) // it was checked
	if limit.Algorithm == slidegate.DefaultAlgorithm && bound.Rule().Algorithm == rule.SlidingLog {
		named := limit
		named.Algorithm = slidegate.SlidingWindow
		return fmt.Errorf("%s is a sliding-log, and so are the quotas it is compared with, at most %d; name the algorithm: %s",
			limit, rule.MaxLogQuota, named)
	}
	return reason(err)
}

func sweepFindings(runs []*run) *Sweep {
	s := &Sweep{}
	for _, r := range runs {
		s.Points = append(s.Points, SweepPoint{
			Quota: r.groups[0].Limits[0].Quota, Admitted: r.admitted, Denied: r.denied, KeysTouched: r.touched,
		})
	}
	s.Knee = knee(s.Points)
	return s
}

// knee returns the point at which the curve of denials over the logarithm of the quota bends most: the one furthest below
// the straight line between its ends. It is -1 for a curve that hardly bends.
func knee(points []SweepPoint) int {
	const least = 0.1 // of the height of the curve
	last := len(points) - 1
	if last < 2 || points[0].Denied == points[last].Denied {
		return -1
	}
	x := func(i int) float64 { return math.Log(float64(points[i].Quota)) }
	y := func(i int) float64 { return float64(points[i].Denied) }
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
