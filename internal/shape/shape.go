// Package shape knows which part of a limit determines the form of its state. State belongs to a shape: a changed quota, burst,
// overlap or count_refused applies to the existing counts, a changed shape starts empty.
package shape

import (
	"fmt"

	"github.com/slidegate/slidegate/rule"
)

// Of returns the shape of l as a limit of quota 1, which is enough to read a state of l. Two limits have the same shape if
// these are equal.
func Of(l *rule.Limit) rule.Limit {
	s := rule.Limit{
		Algorithm: l.Algorithm, Anchor: l.Anchor, Calendar: l.Calendar, Segments: l.Segments, Window: l.Window, Zone: l.Zone, Quota: 1,
	}
	switch l.Algorithm {
	case rule.TokenBucket:
		s.Burst = 1
	case rule.DefaultAlgorithm:
		s.Overlap = l.Overlap // always the same
	}
	return s
}

// Name returns a fixed, unambiguous name of the shape of l, from which stores may build addresses.
func Name(l *rule.Limit) string {
	switch {
	case l.Algorithm == rule.SlidingWindow:
		return fmt.Sprintf("%s-%d-%d-%s", l.Algorithm, l.Window, l.Segments, l.Anchor)
	case l.Calendar != 0:
		return fmt.Sprintf("%s-%s-%s", l.Algorithm, l.Calendar, l.Zone)
	case l.Algorithm == rule.FixedWindow:
		return fmt.Sprintf("%s-%d-%s", l.Algorithm, l.Window, l.Anchor)
	default:
		return fmt.Sprintf("%s-%d", l.Algorithm, l.Window)
	}
}
