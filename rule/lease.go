package rule

import "fmt"

// A lease is a number of units that were charged in advance and are spent later, one by one, without a request to the
// store. What is admitted stays what the rule admits if the units of a window are spent in the part in which they were
// charged, because within a part the amount that counts against the quota never grows by itself. A token bucket has no
// parts: its units are spent within LeaseLife, and its burst is smaller by what refills in that time, for every process
// that uses the limit, whether it leases or not.

// LeaseLife is how long after their charge the units of a token bucket may be spent.
const LeaseLife = Micros(100_000)

// LeaseReserve returns by how much Lease reduces the burst of a token bucket: what refills in LeaseLife.
func (l *Limit) LeaseReserve() int64 {
	return product(l.Quota, LeaseLife).overUp(int64(l.Window))
}

// Part returns the start of the part of the window that contains at, and the start of the next part. The limit must be
// a calendar window, or a window whose parts begin at multiples of their length.
func (l *Limit) Part(at Micros) (start, end Micros) {
	if l.Calendar != NoPeriod {
		return l.Bounds(at)
	}
	start = at - at%l.part()
	return start, start + l.part()
}

// checkLease rejects leases where units that are spent later than they were charged would admit too much.
func (l *Limit) checkLease() error {
	var why string
	switch {
	case l.Algorithm == SlidingLog:
		why = "a sliding-log limit cannot be leased, because it counts every unit from the time of its charge"
	case l.Algorithm == InFlight:
		why = "an in-flight limit cannot be leased, because a slot is held from the time of its charge"
	case l.CountDenied:
		why = "a limit with count_denied cannot be leased, because the store must receive every request"
	case l.Anchor == AnchorFirst:
		why = "a limit with anchor first cannot be leased, because the store does not see the request that starts the window"
	default:
		return nil
	}
	return fmt.Errorf("lease: %s; use sliding-window with segments=60 overlap=whole, or leave lease out", why)
}
