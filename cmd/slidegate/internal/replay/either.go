package replay

import (
	"encoding/binary"
	"math"

	"github.com/slidegate/slidegate/rule"
)

// logOrParts is the state of a key under a limit that names no algorithm: a log, or parts, of which only those that hold units are
// kept. The zero value is the state of a key never seen.
type logOrParts struct {
	log   rule.Log
	parts []byte // where the current part starts; then for each part that holds units, its index and its units; nil for a log
}

// start returns where the current part starts, or rule.Absent.
func (e *logOrParts) start() rule.Micros {
	if len(e.parts) == 0 {
		return rule.Absent
	}
	return rule.Micros(binary.LittleEndian.Uint64(e.parts))
}

// state returns the state in the form of the rule. It uses counts, which has an element for each part.
func (e *logOrParts) state(counts []int64) rule.State {
	clear(counts)
	for index, units := range e.each {
		counts[index] = units
	}
	return rule.State{Log: e.log, Start: e.start(), Counts: counts}
}

// each calls yield with each part that holds units.
func (e *logOrParts) each(yield func(index int, units int64) bool) {
	if len(e.parts) == 0 {
		return
	}
	for rest := e.parts[8:]; len(rest) > 0; {
		units, n := binary.Uvarint(rest[1:])
		if !yield(int(rest[0]), int64(units)) {
			return
		}
		rest = rest[1+n:]
	}
}

// keep stores a state of the rule.
func (e *logOrParts) keep(s *rule.State) {
	e.log = s.Log
	e.parts = e.parts[:0]
	if !s.InParts() {
		return
	}
	e.parts = binary.LittleEndian.AppendUint64(e.parts, uint64(s.Start))
	for index, units := range s.Counts {
		if units > 0 {
			e.parts = binary.AppendUvarint(append(e.parts, byte(index)), uint64(units))
		}
	}
}

// bytes returns 8 bytes for each unit of a log, and for parts what the store in memory takes: a slot of 64 bytes, and more if more than 16
// parts before the current one hold units, or one of them holds many.
func (e *logOrParts) bytes() int64 {
	if len(e.parts) == 0 {
		return 8 * int64(e.log.Len())
	}
	const line = 64
	used, most := 0, int64(0)
	for index, units := range e.each {
		if index > 0 {
			used++
			most = max(most, units)
		}
	}
	switch {
	case used <= 16 && most <= 511:
		return line
	case most <= math.MaxUint8:
		return 2 * line
	case most <= math.MaxUint16:
		return 3 * line
	default:
		return 10 * line
	}
}
