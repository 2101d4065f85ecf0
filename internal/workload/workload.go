// Package workload estimates how much work a request is for a store, for those that combine requests into calls.
package workload

import (
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// unitsPerWork is how many units of a log, or slots, a store reads in about the time that it takes for a request with one
// charge of another algorithm. In Redis that is 5 microseconds, and 150 for a log of 10,000 units.
const unitsPerWork = 200

// OfCharge returns the work of a charge of a limit: 1, and more for a limit of which the store keeps every unit, if there may be
// more than 200.
func OfCharge(limit *store.Limit) int {
	if r := limit.Rule(); r.Algorithm == rule.SlidingLog || r.Algorithm == rule.InFlight {
		return 1 + int(max(0, r.Quota-1)/unitsPerWork)
	}
	return 1
}

// Of returns the work of a request in a call in which it comes after previous, which is nil for the first one: 1 for most
// requests. A layer or a store that combines requests bounds the work of a call by it, because other callers wait meanwhile.
// Equal takes in a row are decided from a state that is read once.
func Of(r, previous *store.Request) int {
	if previous != nil && repeats(r, previous) {
		return 1
	}
	work := 0
	for i := range r.Charges {
		work += OfCharge(r.Charges[i].Limit)
	}
	return max(1, work)
}

// repeats reports whether two requests are takes of the same units, of one charge each.
func repeats(r, other *store.Request) bool {
	if r.Op != rule.Take || other.Op != rule.Take || len(r.Charges) != 1 || len(other.Charges) != 1 || r.Group != other.Group {
		return false
	}
	a, b := &r.Charges[0], &other.Charges[0]
	return a.Limit == b.Limit && a.Cost == b.Cost && a.Key == b.Key
}
