// Package summary condenses the states of keys that a store evicts while they still count.
package summary

import "github.com/slidegate/slidegate/rule"

// Summary is what a store keeps of a state that it evicts while the state still counts. It takes less space than the
// state, and errs only toward refusal: the state that Recall makes from it admits nothing that the original state would
// have refused. That remains true if Units, At or Expires are increased. The zero value stands for a state that need not
// be remembered.
//
// Two exceptions: if windows start with a key's first request, At must not change. Parts on another grid end at other times,
// so that later charges would fade too early. And a token bucket that is overdrawn because Units was increased has nothing
// left that a refusal could take, so with CountRefused such refusals do not count.
type Summary struct {
	Units   int64       // how many units count or, in a token bucket, are missing
	At      rule.Micros // as of when: all units count as if they were as recent as the newest one
	Expires rule.Micros // when the last of them stops counting
}

// Of returns what must be remembered of s at now. It depends only on the shape of l, because the next request for the key may
// come with another quota, burst, overlap or count_refused. It leaves out what is held, which is remembered elsewhere.
func Of(l *rule.Limit, s *rule.State, now rule.Micros) Summary {
	if len(s.Holds) > 0 {
		used := *s
		used.Holds, s = nil, &used
	}
	switch l.Algorithm {
	case rule.DefaultAlgorithm:
		if n := s.Log.Len(); n > 0 && !s.InParts() { // it comes back in parts
			m := ofUnits(l, s, s.Log.Time(n-1), now)
			if m.Units > 0 {
				m.At = startAt(l, max(0, m.At))
				m.Expires = m.At + rule.Micros(l.Parts())*part(l)
			}
			return m
		}
		return ofWindow(l, s, now)
	case rule.SlidingLog:
		if n := s.Log.Len(); n > 0 {
			return ofUnits(l, s, s.Log.Time(n-1), now)
		}
	case rule.InFlight:
		if n := len(s.Slots); n > 0 {
			return ofUnits(l, s, s.Slots[n-1].Renewed, now)
		}
	case rule.TokenBucket:
		return ofBucket(l, s, now)
	default:
		return ofWindow(l, s, now)
	}
	return Summary{}
}

// ofUnits counts the units in the window, even those beyond the quota, because the next quota may be larger. A state that the
// clock left far ahead counts as if made now.
func ofUnits(l *rule.Limit, s *rule.State, newest, now rule.Micros) Summary {
	units := l.Used(s, now)
	if units == 0 {
		return Summary{}
	}
	if newest > now+l.Window {
		newest = now
	}
	return Summary{units, newest, newest + l.Window}
}

// ofBucket rounds up what is missing. It does not subtract what has been refilled until now, because that depends on the
// quota.
func ofBucket(l *rule.Limit, s *rule.State, now rule.Micros) Summary {
	ahead := s.Start - now
	switch {
	case s.Missing == 0 && s.Rest == 0, ahead <= 0 && now >= s.Until:
		return Summary{}
	case ahead <= l.Window:
		ahead = 0
	}
	units := s.Missing
	if s.Rest > 0 {
		units++
	}
	return Summary{min(units, rule.MaxQuota), s.Start - ahead, s.Until - ahead}
}

// ofWindow adds up the counts of all parts that are still in the window, as if they belonged to the newest part.
func ofWindow(l *rule.Limit, s *rule.State, now rule.Micros) Summary {
	if len(s.Counts) == 0 || s.Start == rule.Absent {
		return Summary{}
	}
	own := *s
	live := l.Parts()
	switch ahead := s.Start - now; {
	case ahead > l.Window:
		own.Start = startAt(l, now)
	case l.Expires(s) <= now:
		return Summary{}
	case ahead < 0 && l.Calendar == 0:
		live -= int(-ahead / part(l))
	}
	var units int64
	for _, count := range s.Counts[:live] {
		units = min(units+count, rule.MaxQuota)
	}
	if units == 0 {
		if l.Anchor == rule.AnchorClock && own.Start <= now {
			return Summary{}
		}
		units = 1 // everything was given back, but where the parts start still matters
	}
	return Summary{units, own.Start, l.Expires(&own)}
}

// Recall sets s, the state of a key never seen, to the state that m stands for. It uses the memory of s.
func (m Summary) Recall(l *rule.Limit, s *rule.State) {
	switch l.Algorithm {
	case rule.SlidingLog:
		n := int(min(m.Units, rule.MaxLogQuota))
		s.Log.Restart(n, l.Window)
		for range n {
			s.Log.Append(m.At)
		}
	case rule.TokenBucket:
		const latest = 1<<53 - 1 // the latest time that a port can represent exactly
		s.Start, s.Until, s.Missing = m.At, min(m.Expires, latest), min(m.Units, rule.MaxQuota)
	case rule.InFlight:
		for range min(m.Units, rule.MaxLogQuota) {
			s.Slots = append(s.Slots, rule.Slot{Renewed: m.At}) // they cannot be released, but they expire
		}
	default:
		if len(s.Counts) == 0 {
			s.Counts = make([]int64, l.Parts())
		}
		s.Start = startAt(l, m.At)
		s.Counts[0] = min(m.Units, rule.MaxQuota)
	}
}

// part returns the length of a part of the window.
func part(l *rule.Limit) rule.Micros { return l.Window / rule.Micros(max(1, l.Segments)) }

// startAt returns where the current part starts in a state that begins at now.
func startAt(l *rule.Limit, now rule.Micros) rule.Micros {
	switch {
	case l.Calendar != 0:
		start, _ := l.Bounds(now)
		return start
	case l.Anchor == rule.AnchorFirst:
		return now
	}
	return now - now%part(l)
}
