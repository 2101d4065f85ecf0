package rule

// The window algorithms. A sliding window of S segments keeps S+1 counts: one for each part of the window, and one for the
// oldest part, which the window covers only partly. A fixed window is the same with a single count.

// part is the length of one part.
func (l *Limit) part() Micros {
	if l.Segments <= 1 {
		return l.Window
	}
	return l.Window / Micros(l.Segments)
}

// startAt returns where the current part starts in a state that begins at now.
func (l *Limit) startAt(now Micros) Micros {
	if l.Anchor == AnchorFirst {
		return now
	}
	return now - now%l.part()
}

// lookWindow finds where the current part starts at now, and by how many parts the counts have shifted. It does not
// change the state, because a refusal must not.
func (l *Limit) lookWindow(s *State, now Micros, v *view) {
	if l.Calendar != 0 {
		l.lookCalendar(s, now, v)
		return
	}
	v.start = s.Start
	ahead := s.Start - now
	switch part := l.part(); {
	case s.absentWindow():
		v.start, v.shift = l.startAt(now), l.Parts()
	case ahead > l.Window: // the clock had jumped ahead: keep the counts, move the window back
		v.start, v.Moved = l.startAt(now), true
	case ahead > 0: // a time before the state's own counts as the state's own
		v.At = s.Start
	case -ahead >= part:
		passed := -ahead / part
		if passed >= Micros(l.Parts()) {
			v.start, v.shift = l.startAt(now), l.Parts()
		} else {
			v.start, v.shift = s.Start+passed*part, int(passed)
		}
	}
	v.Room = l.Quota - l.usedWindow(s, v)
}

// usedWindow returns what counts against the quota at v.
func (l *Limit) usedWindow(s *State, v *view) int64 {
	oldest := l.Parts() - 1 - v.shift
	if oldest < 0 {
		return 0
	}
	if l.Algorithm == FixedWindow {
		return s.Counts[0]
	}
	var used int64
	for _, count := range s.Counts[:oldest] {
		used += count
	}
	part := l.part()
	return used + l.weigh(s.Counts[oldest], v.start+part-v.At, part)
}

// weigh returns the weight of a count of which covered/part lies in the window.
func (l *Limit) weigh(count int64, covered, part Micros) int64 {
	switch {
	case count == 0 || covered == part || l.Overlap == OverlapWhole:
		return count
	case l.Overlap == OverlapDown:
		q, _ := product(count, covered).over(int64(part))
		return q
	default:
		return product(count, covered).overUp(int64(part))
	}
}

// chargeWindow rolls the counts to v and adds n to the current part.
func (l *Limit) chargeWindow(s *State, v *view, n int64) {
	if len(s.Counts) == 0 {
		s.Counts = make([]int64, l.Parts())
	}
	l.rollWindow(s, v)
	before := s.Counts[0]
	s.Counts[0] = min(before+n, MaxQuota)
	v.Room -= s.Counts[0] - before
}

func (l *Limit) rollWindow(s *State, v *view) {
	if v.shift > 0 {
		copy(s.Counts[v.shift:], s.Counts)
		clear(s.Counts[:v.shift])
	}
	s.Start, v.shift = v.start, 0
}

// waitWindow returns the first time at which n fits. Usage only falls as time passes, because each part in turn becomes
// the oldest one and fades. So the first part in which n fits contains the solution.
func (l *Limit) waitWindow(s *State, v *view, n int64) Micros {
	if l.Calendar != 0 {
		_, end := l.Bounds(v.At)
		return end - v.Now
	}
	part := l.part()
	if l.Algorithm == FixedWindow {
		return v.start + part - v.Now
	}
	target := l.Quota - n
	oldest := l.Parts() - 1 - v.shift
	var whole int64
	for _, count := range s.Counts[:oldest] {
		whole += count
	}
	for start := v.start; oldest >= 0; start += part {
		count, room := s.Counts[oldest], target-whole
		if room >= 0 {
			if count <= room {
				return start - v.Now
			}
			if covered := l.maxCovered(count, room, part); covered > 0 {
				return start + part - covered - v.Now
			}
		}
		if oldest--; oldest >= 0 {
			whole -= s.Counts[oldest]
		}
	}
	return v.start + Micros(l.Parts()-v.shift)*part - v.Now
}

// maxCovered returns how much of the part that contains count may at most lie in the window for count to weigh no more
// than room, which is less than count. It is 0 if count weighs more however little is covered.
func (l *Limit) maxCovered(count, room int64, part Micros) Micros {
	switch l.Overlap {
	case OverlapWhole:
		return 0
	case OverlapDown:
		covered, _ := product(room+1, part).minus(wide{0, 1}).over(count)
		return Micros(covered)
	default:
		if room == 0 {
			return 0
		}
		covered, _ := product(room, part).over(count)
		return Micros(covered)
	}
}

// giveBackWindow removes up to n units from the part that contains at, or from the oldest part on if at is Oldest.
func (l *Limit) giveBackWindow(s *State, v *view, n int64, at Micros) int64 {
	if s.absentWindow() {
		return 0
	}
	newest, oldest := 0, l.Parts()-1 // the parts to take from, after the roll
	if at != Oldest {
		if at < v.start && l.Calendar != 0 {
			return 0
		}
		if at < v.start {
			newest = int(min((v.start-at-1)/l.part()+1, Micros(l.Parts())))
		}
		oldest = min(oldest, newest)
	}
	var given int64
	for i := oldest; i >= max(newest, v.shift) && given < n; i-- {
		taken := min(n-given, s.Counts[i-v.shift])
		s.Counts[i-v.shift] -= taken
		given += taken
	}
	if given > 0 {
		l.rollWindow(s, v)
	}
	return given
}
