package rule

// Usage is what counts in a state at one time, and until when. Decisions do not need it: it is for people who look at a key.
type Usage struct {
	Kept    Algorithm // how the state is kept: as the limit says or, if it names no algorithm, as a SlidingLog or a SlidingWindow
	Used    int64     // what counts of the capacity, with what is held; more than the capacity if it was overdrawn
	Charged []Charged // the oldest first; their Counts and the Units of Held together are Used
	Held    []Hold    // the one that ends first first
}

// Charged is units of a state that were charged at one time or in one part, and some of which still count. Of a token bucket it is what
// is missing.
type Charged struct {
	From   Micros // when they were charged: from From on, and before To. Token bucket: as of when they are missing
	To     Micros // equal to From if that is the very time
	Units  int64  // how many were charged
	Counts int64  // how many of them count: fewer if the window covers their part only partly
	Frees  Micros // from when on none of them counts, if nothing else happens
	ID     ID     // in-flight: whose slot it is
}

// Usage returns what counts in s at now.
func (l *Limit) Usage(s *State, now Micros) Usage {
	v := l.viewAt(s, now)
	u := Usage{Kept: l.asKept(&v), Used: l.Capacity() - v.Room, Held: l.openHolds(s, &v)}
	switch u.Kept {
	case SlidingLog:
		u.Charged = l.chargedLog(s, &v)
	case TokenBucket:
		if missing := v.debt.overUp(int64(l.Window)); missing > 0 {
			u.Charged = []Charged{{From: v.At, To: v.At, Units: missing, Counts: missing, Frees: now + l.waitBucket(&v, l.Burst)}}
		}
	case InFlight:
		for _, slot := range s.Slots[len(s.Slots)-int(v.live):] {
			at := slot.Renewed - v.behind
			u.Charged = append(u.Charged, Charged{From: at, To: at, Units: 1, Counts: 1, Frees: at + l.Window, ID: slot.ID})
		}
	default:
		u.Charged = l.chargedParts(s, &v)
	}
	return u
}

// chargedLog returns the units of a log that count. Those of one time are one Charged.
func (l *Limit) chargedLog(s *State, v *view) (all []Charged) {
	for i := s.Log.Len() - int(v.live); i < s.Log.Len(); i++ {
		at := s.Log.Time(i) - v.behind
		if n := len(all); n == 0 || all[n-1].From != at {
			all = append(all, Charged{From: at, To: at, Frees: at + l.Window})
		}
		last := &all[len(all)-1]
		last.Units++
		last.Counts++
	}
	return all
}

// chargedParts returns the parts of a window in which something counts.
func (l *Limit) chargedParts(s *State, v *view) (all []Charged) {
	part, oldest := l.part(), l.Parts()-1
	for ago := oldest; ago >= v.shift; ago-- { // how many parts before the current one
		c := Charged{From: v.start - Micros(ago)*part, Units: s.Counts[ago-v.shift]}
		c.To, c.Counts = c.From+part, c.Units
		if l.Calendar != 0 {
			_, c.To = l.Bounds(v.At)
		}
		c.Frees = c.To
		if l.Algorithm != FixedWindow { // it counts until it has left the window, in the end weighted
			c.Frees += l.Window - l.maxCovered(max(1, c.Units), 0, part)
			if ago == oldest {
				c.Counts = l.weigh(c.Units, v.start+part-v.At, part)
			}
		}
		if c.Counts > 0 {
			all = append(all, c)
		}
	}
	return all
}
