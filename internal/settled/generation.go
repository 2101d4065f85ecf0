// Package settled decides how long stores remember IDs: which reservations were settled, and which calls that count once were made.
package settled

import "github.com/slidegate/slidegate/rule"

// Generation is a number of settlements and calls at one address that a store forgets together. A store keeps two generations of an
// address: it adds to the newer one, and looks in both. When the newer one Rotates, it drops the older one and starts the Next. So each is
// remembered for at least the memory with which it was added; limits of one address may differ in it. The zero value is an empty
// generation.
type Generation struct {
	Began  rule.Micros // no settlement in the generation before this one is later
	Newest rule.Micros // the time of its latest settlement
	Count  int64       // how many settlements it contains
	Until  rule.Micros // when the last of them has been remembered long enough
	Before rule.Micros // Until of the generation before this one, which is kept until then
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
	return age >= memory && at >= g.Before && (age >= rule.LongMemory || g.Count >= most) || age < -memory && g.Count >= most
}

// Next returns the generation after g.
func (g *Generation) Next() Generation { return Generation{Began: g.Newest, Before: g.Until} }

// Add counts a settlement that is to be remembered for that long.
func (g *Generation) Add(at, memory rule.Micros) {
	if g.Count == 0 {
		g.Began = max(g.Began, at)
	}
	g.Newest = max(g.Newest, at)
	g.Until = max(g.Until, at+memory)
	g.Count++
}

// Expires returns when the last settlement of g has been remembered long enough and is older than rule.LongMemory, so that a store may
// forget g: not before the generation before it, whose records are older.
func (g *Generation) Expires() rule.Micros {
	return max(g.Until, g.Newest+rule.LongMemory, g.Before)
}
