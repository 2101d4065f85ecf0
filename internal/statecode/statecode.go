// Package statecode writes and reads the states of limits, for stores that keep them as bytes in a file or in an entry of a key-value
// engine. Which fields a state has follows from the limit's shape, which the store keeps elsewhere.
package statecode

import (
	"encoding/binary"

	"github.com/slidegate/slidegate/rule"
)

// Append appends a state of an algorithm to dst.
func Append(dst []byte, algorithm rule.Algorithm, s *rule.State) []byte {
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
		dst = binary.AppendVarint(dst, int64(s.Start))
		for _, count := range s.Counts {
			dst = binary.AppendVarint(dst, count)
		}
	}
	return dst
}

// Source is where a state is read from. After the first failure it returns zeros.
type Source interface {
	Int() int64 // as binary.AppendVarint wrote it
	Uint64() uint64
	Check(ok bool) // fails if not ok: no state has these bytes
	Failed() bool
}

// Read reads what Append wrote, under a limit of the same shape. The result is valid only if src has not failed.
func Read(src Source, l *rule.Limit, s *rule.State) {
	switch l.Algorithm {
	case rule.SlidingLog:
		readLog(src, l, s)
	case rule.TokenBucket:
		*s = rule.State{Start: rule.Micros(src.Int()), Until: rule.Micros(src.Int()), Missing: src.Int(), Rest: src.Int()}
		CheckBucket(src, l, s)
	case rule.InFlight:
		readSlots(src, l, s)
	default:
		s.Start = rule.Micros(src.Int())
		src.Check(s.Start >= earliestStart(l) && s.Start <= rule.MaxNow)
		for range l.Parts() {
			count := src.Int()
			src.Check(count >= 0 && count <= rule.MaxQuota)
			s.Counts = append(s.Counts, count)
		}
	}
}

// earliestStart returns the earliest start of a window: a period of the calendar may begin before the epoch and include it.
func earliestStart(l *rule.Limit) rule.Micros {
	if l.Calendar != rule.NoPeriod {
		return -l.Window
	}
	return 0
}

func readLog(src Source, l *rule.Limit, s *rule.State) {
	n := src.Int()
	src.Check(n >= 0 && n <= rule.MaxLogQuota)
	var times []rule.Micros
	at := rule.Micros(0)
	for i := int64(0); i < n && !src.Failed(); i++ {
		at += rule.Micros(src.Int())
		// A clock that was set back to just after the epoch leaves times before it.
		src.Check(at > -l.Window && at <= rule.MaxNow && (i == 0 || at >= times[i-1] && at-times[0] < l.Window))
		times = append(times, at)
	}
	if !src.Failed() {
		s.Log = rule.LogOf(times, l.Window, rule.MaxLogQuota)
	}
}

// CheckBucket checks a token bucket that was read, also one of the first version.
func CheckBucket(src Source, l *rule.Limit, s *rule.State) {
	if legacy := rule.LegacyBucket(s.Start, s.Rest); s.Missing == legacy.Missing {
		src.Check(s.Start >= rule.Absent && s.Start <= 2*rule.MaxNow && s.Rest >= 0 && s.Rest <= rule.MaxQuota && s.Until == 0)
		return
	}
	src.Check(s.Start >= 0 && s.Start <= 2*rule.MaxNow && s.Until >= s.Start && s.Until <= 4*rule.MaxNow)
	src.Check(s.Missing >= 0 && s.Missing <= rule.MaxQuota && s.Rest >= 0 && rule.Micros(s.Rest) < l.Window)
}

func readSlots(src Source, l *rule.Limit, s *rule.State) {
	n := src.Int()
	src.Check(n >= 0 && n <= rule.MaxLogQuota)
	for i := int64(0); i < n && !src.Failed(); i++ {
		slot := rule.Slot{ID: rule.ID(src.Uint64()), Renewed: rule.Micros(src.Int())}
		src.Check(slot.Renewed > -l.Window && slot.Renewed <= rule.MaxNow && (i == 0 || slot.Renewed >= s.Slots[i-1].Renewed))
		s.Slots = append(s.Slots, slot)
	}
}
