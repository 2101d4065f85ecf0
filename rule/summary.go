package rule

// Summary is what a store keeps of a state that it evicts while the state still counts. It takes less space than the
// state, and errs only toward denial: the state that Recall makes from it admits nothing that the original state would
// have denied. That remains true if Units, At or Expires are increased. The zero value stands for a state that need not
// be remembered.
//
// Two exceptions: if windows start with a key's first request, At must not change. Parts on another grid end at other times,
// so that later charges would fade too early. And a token bucket that is overdrawn because Units was increased has nothing
// left that a denial could take, so with CountDenied such denials do not count.
type Summary struct {
	Units   int64  // how many units count or, in a token bucket, are missing
	At      Micros // as of when: all units count as if they were as recent as the newest one
	Expires Micros // when the last of them stops counting
}

// Summarize returns what must be remembered of s at now. It depends only on the shape of l, because the next request for
// the key may come with another quota, burst, overlap or count_denied.
func (l *Limit) Summarize(s *State, now Micros) Summary {
	switch l.Algorithm {
	case SlidingLog:
		return l.summarizeLog(s, now)
	case TokenBucket:
		return l.summarizeBucket(s, now)
	case InFlight:
		return l.summarizeSlots(s, now)
	default:
		return l.summarizeWindow(s, now)
	}
}

// Recall sets s to the state that m stands for, keeping the memory of its counts and slots.
func (l *Limit) Recall(m Summary, s *State) {
	s.Clear()
	switch l.Algorithm {
	case SlidingLog:
		s.Log.add(m.At, min(m.Units, MaxLogQuota), l.Window, MaxLogQuota)
	case TokenBucket:
		const latest = 1<<53 - 1 // the latest time that a port can represent exactly
		s.Start, s.Until, s.Missing = m.At, min(m.Expires, latest), min(m.Units, MaxQuota)
	case InFlight:
		for range min(m.Units, MaxLogQuota) {
			s.Slots = append(s.Slots, Slot{Renewed: m.At}) // they cannot be released, but they expire
		}
	default:
		l.recallWindow(m, s)
	}
}

// summarizeLog counts the units in the window, even those beyond l's quota, because the next quota may be larger.
func (l *Limit) summarizeLog(s *State, now Micros) Summary {
	if s.Log.empty() {
		return Summary{}
	}
	v := l.View(s, now)
	units := s.Log.liveAfter(v.At - l.Window + v.behind)
	return summary(units, s.Log.newest()-v.behind, l.Window)
}

func (l *Limit) summarizeSlots(s *State, now Micros) Summary {
	if len(s.Slots) == 0 {
		return Summary{}
	}
	v := l.View(s, now)
	return summary(v.live, s.Slots[len(s.Slots)-1].Renewed-v.behind, l.Window)
}

func summary(units int64, at, life Micros) Summary {
	if units == 0 {
		return Summary{}
	}
	return Summary{units, at, at + life}
}

// summarizeBucket rounds up what is missing. It does not subtract what has been refilled until now, because that depends on
// the quota.
func (l *Limit) summarizeBucket(s *State, now Micros) Summary {
	own := l.bucketAt(s, now)
	if own.fullBucket() {
		return Summary{}
	}
	units := own.Missing
	if own.Rest > 0 {
		units++
	}
	return Summary{min(units, MaxQuota), own.Start, own.Until}
}

// summarizeWindow adds up the counts of all parts that are still in the window, as if they belonged to the newest part.
func (l *Limit) summarizeWindow(s *State, now Micros) Summary {
	if s.absentWindow() {
		return Summary{}
	}
	v := l.View(s, now)
	live := l.Parts() - v.shift
	if live <= 0 {
		return Summary{}
	}
	var units int64
	for _, count := range s.Counts[:live] {
		units = min(units+count, MaxQuota)
	}
	own := State{Start: s.Start, Counts: s.Counts}
	if v.Moved {
		own.Start = v.start
	}
	if units == 0 {
		if l.Anchor == AnchorClock && own.Start <= now {
			return Summary{}
		}
		units = 1 // everything was given back, but where the parts start still matters
	}
	return Summary{units, own.Start, l.Expires(&own)}
}

func (l *Limit) recallWindow(m Summary, s *State) {
	if len(s.Counts) == 0 {
		s.Counts = make([]int64, l.Parts())
	}
	if l.Calendar != NoPeriod {
		s.Start, _ = l.Bounds(m.At)
	} else {
		s.Start = l.startAt(m.At)
	}
	s.Counts[0] = min(m.Units, MaxQuota)
}
