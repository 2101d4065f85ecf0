package rule

import "fmt"

// minLeasedPart is the shortest part for which a limit that names no number of parts can be leased.
const minLeasedPart = Micros(250_000)

// checkLease rejects leases where units that are spent later than they were charged would admit too much.
func (l *Limit) checkLease() error {
	why := algorithms[l.Algorithm].notLeased
	switch {
	case why != "":
	case l.CountRefused:
		why = "a limit with count_refused cannot be leased, because the store must receive every request"
	case l.Algorithm == DefaultAlgorithm && l.part() < minLeasedPart:
		return fmt.Errorf("lease: the window has %d parts of %v, and units are leased for at most a part; use segments=%d overlap=whole, "+
			"a window of at least %v, or leave lease out", l.Segments, l.part().Duration(), max(1, l.Window/minLeasedPart),
			(maxDefaultParts * minLeasedPart).Duration())
	case l.Anchor == AnchorFirst:
		why = "a limit with anchor first cannot be leased, because the store does not see the request that starts the window"
	default:
		return nil
	}
	return fmt.Errorf("lease: %s; use sliding-window with segments=60 overlap=whole, or leave lease out", why)
}
