package rule

import "fmt"

// Units that were charged in one go may be spent later, one by one, without asking the store: a lease. What is admitted stays
// what the rule admits if units of a window are spent in the part in which they were charged, because within a part what counts
// against the quota never grows by itself. A token bucket has no parts: its units are spent within LeaseLife, and its burst is
// smaller by what refills in that time, for all who use the limit, whether they lease or not.

// LeaseLife is how long units of a token bucket may be spent after they were charged.
const LeaseLife = Micros(100_000)

// LeaseReserve returns by how much the burst of a token bucket is smaller if the limit says Lease: what refills in LeaseLife.
func (l *Limit) LeaseReserve() int64 {
	return product(l.Quota, LeaseLife).overUp(int64(l.Window))
}

// Part returns the part of the window that a moment lies in: where it starts and where the next one does. The limit is a window
// whose parts begin at multiples of their length, or a calendar's.
func (l *Limit) Part(at Micros) (start, end Micros) {
	if l.Calendar != NoPeriod {
		return l.Bounds(at)
	}
	start = at - at%l.part()
	return start, start + l.part()
}

// checkLease refuses to lease where units that are spent later than they were charged would let too many through.
func (l *Limit) checkLease() error {
	var why string
	switch {
	case l.Algorithm == SlidingLog:
		why = "a sliding-log limit cannot be leased, because it counts every unit from the moment of its charge"
	case l.Algorithm == InFlight:
		why = "an in-flight limit cannot be leased, because a slot is held from the moment of its charge"
	case l.CountDenied:
		why = "a limit with count_denied cannot be leased, because the store has to hear of every request"
	case l.Anchor == First:
		why = "a limit with anchor first cannot be leased, because the store does not see the request that the window begins with"
	default:
		return nil
	}
	return fmt.Errorf("lease: %s; use sliding-window with segments=60 overlap=whole, or leave lease out", why)
}
