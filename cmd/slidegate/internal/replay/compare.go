package replay

import (
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/rule"
)

// comparedAlgorithms lists the algorithms that a comparison includes. Except for the default, a name is what
// follows the quota and the window of a limit.
var comparedAlgorithms = []struct {
	name  string
	apply func(*slidegate.Limit)
}{
	{"default", func(l *slidegate.Limit) { l.Anchor = rule.AnchorClock }},
	{"segments=1", func(l *slidegate.Limit) { l.Segments = 1 }},
	{"segments=10", func(l *slidegate.Limit) { l.Segments = 10 }},
	{"segments=1 overlap=whole", func(l *slidegate.Limit) { l.Segments, l.Overlap = 1, slidegate.OverlapWhole }},
	{"sliding-log", func(l *slidegate.Limit) { l.Algorithm, l.Anchor = slidegate.SlidingLog, rule.AnchorClock }},
	{"fixed-window", func(l *slidegate.Limit) { l.Algorithm = slidegate.FixedWindow }},
	{"token-bucket", func(l *slidegate.Limit) { l.Algorithm, l.Anchor = slidegate.TokenBucket, rule.AnchorClock }},
}

// comparisonRuns returns one run per algorithm with the quotas and windows of the limits, and why some algorithms are
// omitted. Calendar windows are the same in all runs: only a fixed window supports them.
func comparisonRuns(groups []routing.Group) (runs []*run, omitted []Omission) {
	if first, all := calendarOnly(groups); all {
		length := slidegate.Limit{Quota: first.Quota, Window: periodLengths[first.Calendar]}
		return nil, []Omission{{Name: "other algorithms", Why: first.String() + " is a calendar window, which only fixed-window supports; " +
			"to compare, use a duration such as " + length.String()}}
	}
	for _, algorithm := range comparedAlgorithms {
		changed := slices.Clone(groups)
		for i := range changed {
			changed[i].Limits = slices.Clone(changed[i].Limits)
			for j, l := range changed[i].Limits {
				if l.Calendar != 0 {
					continue
				}
				l = slidegate.Limit{Name: l.Name, Quota: l.Quota, Window: l.Window, Anchor: l.Anchor, CountRefused: l.CountRefused}
				algorithm.apply(&l)
				changed[i].Limits[j] = l
			}
		}
		r, err := newRun(algorithm.name, changed, true)
		if err != nil {
			omitted = append(omitted, Omission{Name: algorithm.name, Why: reason(err).Error()})
			continue
		}
		runs = append(runs, r)
	}
	return runs, omitted
}

// periodLengths are the approximate lengths of the calendar periods.
var periodLengths = map[rule.Period]time.Duration{
	rule.Day: 24 * time.Hour, rule.Week: 7 * 24 * time.Hour,
	rule.Month: 30 * 24 * time.Hour, rule.Year: 365 * 24 * time.Hour,
}

// calendarOnly reports whether all limits have calendar windows, and returns the first one.
func calendarOnly(groups []routing.Group) (first slidegate.Limit, all bool) {
	for _, group := range groups {
		for _, limit := range group.Limits {
			if limit.Calendar == 0 {
				return first, false
			}
			if first.Quota == 0 {
				first = limit
			}
		}
	}
	return first, true
}
