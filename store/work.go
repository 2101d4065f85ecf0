package store

import "github.com/slidegate/slidegate/rule"

// unitsPerWork is how many units of a log, or slots, a store reads in about the time that it takes for a request with one
// charge of another algorithm. In Redis that is 5 microseconds, and 150 for a log of 10,000 units.
const unitsPerWork = 200

// Work estimates how much work a charge of the limit is for a store: 1, and more for a limit of which the store keeps every
// unit, if there may be more than 200.
func (l *Limit) Work() int {
	if a := l.rule.Algorithm; a == rule.SlidingLog || a == rule.InFlight {
		return 1 + int(max(0, l.rule.Quota-1)/unitsPerWork)
	}
	return 1
}

// Work estimates how much work a request is in a call in which it comes after previous, which is nil for the first one: 1 for
// most requests. A layer or a store that combines requests bounds the work of a call by it, because other callers wait
// meanwhile. Equal takes in a row are decided from a state that is read once.
func (r *Request) Work(previous *Request) int {
	if previous != nil && r.repeats(previous) {
		return 1
	}
	work := 0
	for i := range r.Charges {
		work += r.Charges[i].Limit.Work()
	}
	return max(1, work)
}

// repeats reports whether two requests are takes of the same units, of one charge each.
func (r *Request) repeats(other *Request) bool {
	if r.Op != rule.Take || other.Op != rule.Take || len(r.Charges) != 1 || len(other.Charges) != 1 || r.Group != other.Group {
		return false
	}
	a, b := &r.Charges[0], &other.Charges[0]
	return a.Limit == b.Limit && a.Cost == b.Cost && a.Key == b.Key
}
