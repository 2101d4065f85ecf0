package rule

import "fmt"

// checkLease rejects leases where units that are spent later than they were charged would admit too much.
func (l *Limit) checkLease() error {
	why := algorithms[l.Algorithm].notLeased
	switch {
	case why != "":
	case l.CountRefused:
		why = "a limit with count_refused cannot be leased, because the store must receive every request"
	case l.Anchor == AnchorFirst:
		why = "a limit with anchor first cannot be leased, because the store does not see the request that starts the window"
	default:
		return nil
	}
	return fmt.Errorf("lease: %s; use sliding-window with segments=60 overlap=whole, or leave lease out", why)
}
