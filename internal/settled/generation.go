// Package settled decides how long stores remember which reservations were settled.
package settled

import "github.com/slidegate/slidegate/rule"

// Generation is a number of settlements at one address that a store forgets together. A store keeps two generations of an
// address: it adds settlements to the newer one, and looks them up in both. When the newer one Rotates, it drops the older one
// and starts the Next. So a settlement is remembered for at least the memory that is passed to Rotates. The zero value is an
// empty generation.
type Generation struct {
	Began  rule.Micros // no settlement in the generation before this one is later
	Newest rule.Micros // the time of its latest settlement
	Count  int64       // how many settlements it contains
}

// Rotates reports whether the generation before g can be dropped when another settlement is added at at: all settlements in
// that generation are older than memory, and they are also older than rule.LongMemory, or g contains most settlements and the
// space is needed. If g contains most settlements and does not rotate, the settlement cannot be remembered.
//
// A generation that is far ahead, because the clock had jumped ahead, gives way once it is full.
func (g *Generation) Rotates(at, memory rule.Micros, most int64) bool {
	age := at - g.Began
	if g.Count == 0 {
		return false
	}
	return age >= memory && (age >= rule.LongMemory || g.Count >= most) || age < -memory && g.Count >= most
}

// Next returns the generation after g.
func (g *Generation) Next() Generation { return Generation{Began: g.Newest} }

// Add counts a settlement.
func (g *Generation) Add(at rule.Micros) {
	if g.Count == 0 {
		g.Began = max(g.Began, at)
	}
	g.Newest = max(g.Newest, at)
	g.Count++
}

// Expires returns when the last settlement of g is older than both memory and rule.LongMemory, so that a store may forget g.
func (g *Generation) Expires(memory rule.Micros) rule.Micros {
	return g.Newest + max(memory, rule.LongMemory)
}
