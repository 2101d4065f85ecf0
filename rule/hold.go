package rule

import (
	"fmt"
	"slices"
)

// A reservation on a limit with Hold does not charge its units: it holds them under its ID until it is settled, cancelled, or Hold has
// passed since it was taken or last renewed. What is held counts beside what was used, for every limit with the same address, and
// regardless of the window. A settlement ends the hold and charges what was used at that time. So what a limit counts plus what is held is
// at most the quota at every moment, whatever the algorithm, although a call may outlast the window. Charging at once, and renewing by
// moving the units to now, would not do: a weighted window raises what it counts, and a fixed window forgets at its edge.

// Hold is what one reservation holds of a key.
type Hold struct {
	ID     ID
	Units  int64
	Ends   Micros // when it ends unless it is renewed
	Length Micros // how long after it was taken or renewed that is
}

// MaxHolds is how many reservations can hold units of one key.
const MaxHolds = 1_000

// checkHold rejects holds where the promise would not hold, or means nothing.
func (l *Limit) checkHold() error {
	var why string
	switch {
	case l.Hold < minWindow || l.Hold > MaxWindow:
		return fmt.Errorf("hold: must be 1ms to 5 years (43920h), not %dus", l.Hold)
	case l.Algorithm == InFlight:
		why = "a slot of an in-flight limit is held for its ttl already"
	case l.Lease:
		why = "units of a limit with lease are spent without asking the store, which does not know what they are for"
	case l.CountRefused:
		why = "a limit with count_refused counts refusals in the window, which could leave no unit to hold"
	default:
		return nil
	}
	return fmt.Errorf("hold: %s; leave one of them out", why)
}

// lookHolds adds what is held to what counts.
func (l *Limit) lookHolds(s *State, v *view) {
	for i := range s.Holds {
		if ends, moved := l.holdEnds(&s.Holds[i], v); ends > v.At {
			v.held = min(v.held+s.Holds[i].Units, MaxQuota)
			v.open++
			v.ahead = v.ahead || moved
		}
	}
	v.Room -= v.held
}

// holdEnds returns when a hold ends. One that was taken more than a window ahead of now, because the clock had jumped ahead, counts as if
// taken at the time that decides.
func (l *Limit) holdEnds(h *Hold, v *view) (ends Micros, moved bool) {
	if h.Ends-h.Length > v.Now+l.Window {
		return v.At + h.Length, true
	}
	return h.Ends, false
}

// openHolds returns the holds that have not ended, in the order in which they end, in memory of its own.
func (l *Limit) openHolds(s *State, v *view) []Hold {
	open := make([]Hold, 0, v.open)
	for _, h := range s.Holds {
		if h.Ends, _ = l.holdEnds(&h, v); h.Ends > v.At {
			open = append(open, h)
		}
	}
	slices.SortStableFunc(open, func(a, b Hold) int { return int(max(-1, min(1, a.Ends-b.Ends))) })
	return open
}

// writeHolds drops the holds that have ended, and writes the ends that lookHolds found. It is part of everything that changes a state.
func (l *Limit) writeHolds(s *State, v *view) {
	if len(s.Holds) > 0 {
		s.Holds = append(s.Holds[:0], l.openHolds(s, v)...)
	}
}

// findHold returns the index of the hold of id if it has not ended, otherwise -1.
func (l *Limit) findHold(s *State, v *view, id ID) int {
	if id == 0 || v.open == 0 {
		return -1
	}
	return slices.IndexFunc(s.Holds, func(h Hold) bool {
		ends, _ := l.holdEnds(&h, v)
		return h.ID == id && ends > v.At
	})
}

// hold holds units for id, or renews its hold with the units that it has. It returns how many are held.
func (l *Limit) hold(s *State, v *view, units int64, id ID) int64 {
	if held, ok := l.endHold(s, v, id); ok {
		units = held
	}
	h := Hold{ID: id, Units: units, Ends: v.At + l.Hold, Length: l.Hold}
	at, _ := slices.BinarySearchFunc(s.Holds, h.Ends+1, func(h Hold, ends Micros) int { return int(max(-1, min(1, h.Ends-ends))) })
	s.Holds = slices.Insert(s.Holds, at, h)
	v.held += units
	v.open++
	v.Room -= units
	return units
}

// endHold ends the hold of id and returns its units, or false if there is none.
func (l *Limit) endHold(s *State, v *view, id ID) (units int64, ok bool) {
	i := l.findHold(s, v, id)
	if i < 0 {
		return 0, false
	}
	units = s.Holds[i].Units
	s.Holds = slices.Delete(s.Holds, i, i+1)
	v.held -= units
	v.open--
	v.Room += units
	l.writeBack(s, v)
	return units, true
}

// waitWithHolds returns when cost fits if no hold is renewed or ended early: when enough has left the window for what is then held.
func (l *Limit) waitWithHolds(s *State, v *view, cost int64) Micros {
	soonest, free := Never, v.Room+v.held
	held, open, after := v.held, v.open, Micros(0)
	for _, h := range append(l.openHolds(s, v), Hold{}) {
		if n := cost + held; n <= l.Capacity() && (!v.hold || open < MaxHolds) {
			wait := after
			if n > free {
				wait = max(after, l.waitUsed(s, v, n))
			}
			soonest = min(soonest, wait)
		}
		held -= h.Units
		open--
		if after = h.Ends - v.Now; after >= soonest {
			break
		}
	}
	return soonest
}
