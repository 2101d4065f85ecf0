package replay

import (
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
)

// rivals are the ways to count that a comparison puts side by side.
var rivals = []struct {
	name  string
	apply func(*slidegate.Limit)
}{
	{"sliding-window", func(l *slidegate.Limit) { l.Algorithm = slidegate.SlidingWindow }},
	{"sliding-window segments=10", func(l *slidegate.Limit) { l.Algorithm, l.Segments = slidegate.SlidingWindow, 10 }},
	{"sliding-window overlap=whole", func(l *slidegate.Limit) {
		l.Algorithm, l.Overlap = slidegate.SlidingWindow, slidegate.OverlapWhole
	}},
	{"sliding-log", func(l *slidegate.Limit) { l.Algorithm, l.Anchor = slidegate.SlidingLog, slidegate.AnchorClock }},
	{"fixed-window", func(l *slidegate.Limit) { l.Algorithm = slidegate.FixedWindow }},
	{"token-bucket", func(l *slidegate.Limit) { l.Algorithm, l.Anchor = slidegate.TokenBucket, slidegate.AnchorClock }},
}

// compared returns a run for every algorithm over the quotas and windows of the limits, and why some cannot be.
func compared(groups []facing.Group) (runs []*run, omitted []Omission) {
	for _, rival := range rivals {
		those := slices.Clone(groups)
		for i := range those {
			those[i].Limits = slices.Clone(those[i].Limits)
			for j, l := range those[i].Limits {
				l = slidegate.Limit{Name: l.Name, Quota: l.Quota, Window: l.Window, Anchor: l.Anchor, CountDenied: l.CountDenied}
				rival.apply(&l)
				those[i].Limits[j] = l
			}
		}
		r, err := newRun(rival.name, those, true)
		if err != nil {
			omitted = append(omitted, Omission{Name: rival.name, Why: reason(err).Error()})
			continue
		}
		runs = append(runs, r)
	}
	return runs, omitted
}
