// Package statecode writes and reads the states of limits, for stores that keep them as bytes in a file or in an entry of a key-value
// engine. Which fields a state has follows from the limit's shape, which the store keeps elsewhere.
package statecode

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// codes lists the algorithms in the order of the numbers that stand for them in saved and sent data: append only.
var codes = []rule.Algorithm{rule.SlidingWindow, rule.SlidingLog, rule.FixedWindow, rule.TokenBucket, rule.InFlight, rule.DefaultAlgorithm}

// Code returns the number that stands for an algorithm in saved and sent data.
func Code(a rule.Algorithm) int {
	code := slices.Index(codes, a)
	if code < 0 {
		panic(fmt.Sprintf("statecode: the algorithm %v has no code", a))
	}
	return code
}

// AlgorithmOf returns the algorithm with the given code, and whether there is one.
func AlgorithmOf(code int64) (a rule.Algorithm, ok bool) {
	if code < 0 || code >= int64(len(codes)) {
		return 0, false
	}
	return codes[code], true
}

// inParts is what a state that names no algorithm begins with if it is in parts. Otherwise it is a log, which begins with the number of
// its units.
const inParts = -1

// Append appends a state of an algorithm to dst.
func Append(dst []byte, algorithm rule.Algorithm, s *rule.State) []byte {
	if algorithm == rule.DefaultAlgorithm {
		algorithm = rule.SlidingLog
		if s.InParts() {
			algorithm, dst = rule.SlidingWindow, binary.AppendVarint(dst, inParts)
		}
	}
	switch algorithm {
	case rule.SlidingLog:
		n := s.Log.Len()
		dst = binary.AppendVarint(dst, int64(n))
		before := rule.Micros(0)
		for i := range n {
			at := s.Log.Time(i)
			dst = binary.AppendVarint(dst, int64(at-before))
			before = at
		}
	case rule.TokenBucket:
		if s.Missing == 0 && s.Rest == 0 {
			dst = append(dst, 0, 0, 0, 0)
			break
		}
		dst = binary.AppendVarint(dst, int64(s.Start))
		dst = binary.AppendVarint(dst, int64(s.Until))
		dst = binary.AppendVarint(dst, s.Missing)
		dst = binary.AppendVarint(dst, s.Rest)
	case rule.InFlight:
		dst = binary.AppendVarint(dst, int64(len(s.Slots)))
		for _, slot := range s.Slots {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(slot.ID))
			dst = binary.AppendVarint(dst, int64(slot.Renewed))
		}
	default:
		if !s.InParts() {
			dst = binary.AppendVarint(dst, int64(rule.Absent))
			break
		}
		dst = binary.AppendVarint(dst, int64(s.Start))
		for _, count := range s.Counts {
			dst = binary.AppendVarint(dst, count)
		}
	}
	return appendHolds(dst, s.Holds)
}

func appendHolds(dst []byte, holds []rule.Hold) []byte {
	dst = binary.AppendVarint(dst, int64(len(holds)))
	for _, h := range holds {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(h.ID))
		dst = binary.AppendVarint(dst, h.Units)
		dst = binary.AppendVarint(dst, int64(h.Ends))
		dst = binary.AppendVarint(dst, int64(h.Length))
	}
	return dst
}

// Read reads what Append wrote, under a limit of the same shape. The result is valid only if src has not failed.
func Read(src *Reader, l *rule.Limit, s *rule.State) {
	switch l.Algorithm {
	case rule.SlidingLog:
		readLog(src, l, s, src.Int())
	case rule.DefaultAlgorithm:
		if n := src.Int(); n == inParts {
			readCounts(src, l, s)
		} else {
			readLog(src, l, s, n)
		}
	case rule.TokenBucket:
		*s = rule.State{Start: rule.Micros(src.Int()), Until: rule.Micros(src.Int()), Missing: src.Int(), Rest: src.Int()}
		src.Check(s.Start >= 0 && s.Start <= 2*rule.MaxNow && s.Until >= s.Start && s.Until <= 4*rule.MaxNow)
		src.Check(s.Missing >= 0 && s.Missing <= rule.MaxQuota && s.Rest >= 0 && rule.Micros(s.Rest) < l.Window)
	case rule.InFlight:
		readSlots(src, l, s)
	default:
		readCounts(src, l, s)
	}
	readHolds(src, l, s)
}

func readHolds(src *Reader, l *rule.Limit, s *rule.State) {
	n := src.Int()
	src.Check(n >= 0 && n <= rule.MaxHolds)
	for i := int64(0); i < n && !src.Failed(); i++ {
		h := rule.Hold{ID: rule.ID(src.Uint64()), Units: src.Int(), Ends: rule.Micros(src.Int()), Length: rule.Micros(src.Int())}
		src.Check(h.Units >= 0 && h.Units <= rule.MaxQuota && h.Length > 0 && h.Length <= rule.MaxWindow && h.Ends >= h.Length &&
			h.Ends <= rule.MaxNow+h.Length && (i == 0 || h.Ends >= s.Holds[i-1].Ends))
		s.Holds = append(s.Holds, h)
	}
}

func readCounts(src *Reader, l *rule.Limit, s *rule.State) {
	if s.Start = rule.Micros(src.Int()); s.Start == rule.Absent {
		return
	}
	src.Check(s.Start >= earliestStart(l) && s.Start <= rule.MaxNow)
	for range l.Parts() {
		count := src.Int()
		src.Check(count >= 0 && count <= rule.MaxQuota)
		s.Counts = append(s.Counts, count)
	}
}

// earliestStart returns the earliest start of a window: a period of the calendar may begin before the epoch and include it.
func earliestStart(l *rule.Limit) rule.Micros {
	if l.Calendar != 0 {
		return -l.Window
	}
	return 0
}

func readLog(src *Reader, l *rule.Limit, s *rule.State, n int64) {
	src.Check(n >= 0 && n <= rule.MaxLogQuota)
	if src.Failed() {
		return
	}
	s.Log.Restart(int(n), l.Window)
	var first, before rule.Micros
	for i := int64(0); i < n; i++ {
		at := before + rule.Micros(src.Int())
		if i == 0 {
			first, before = at, at
		}
		// A clock that was set back to just after the epoch leaves times before it.
		src.Check(at > -l.Window && at <= rule.MaxNow && at >= before && at-first < l.Window)
		if src.Failed() {
			return
		}
		s.Log.Append(at)
		before = at
	}
}

func readSlots(src *Reader, l *rule.Limit, s *rule.State) {
	n := src.Int()
	src.Check(n >= 0 && n <= rule.MaxLogQuota)
	for i := int64(0); i < n && !src.Failed(); i++ {
		slot := rule.Slot{ID: rule.ID(src.Uint64()), Renewed: rule.Micros(src.Int())}
		src.Check(slot.Renewed > -l.Window && slot.Renewed <= rule.MaxNow && (i == 0 || slot.Renewed >= s.Slots[i-1].Renewed))
		s.Slots = append(s.Slots, slot)
	}
}
