package rule

import (
	"math/big"
	"time"

	"pgregory.net/rapid"
)

// Random limits, times and costs. They are drawn from the whole accepted range, and often from where mistakes are likely:
// at boundaries and a microsecond or a unit next to them, and at the ends of the ranges.

// draw returns a number from least to most. Small numbers, those near the ends and those near powers of two are common.
func draw[N ~int64](t *rapid.T, label string, least, most N) N {
	switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
	case 0:
		return least + N(rapid.Int64Range(0, int64(min(10, most-least))).Draw(t, label))
	case 1:
		return most - N(rapid.Int64Range(0, int64(min(3, most-least))).Draw(t, label))
	case 2:
		power := int64(1) << rapid.IntRange(0, 53).Draw(t, label)
		return clamp(N(power+rapid.Int64Range(-1, 1).Draw(t, label+" beside")), least, most)
	default:
		return spread(t, label, least, most)
	}
}

// spread returns a number from least to most, spread over the whole range: rapid's own numbers are mostly small.
func spread[N ~int64](t *rapid.T, label string, least, most N) N {
	var n N
	for range 7 {
		n = n<<8 | N(rapid.Byte().Draw(t, label))
	}
	return least + n%(most-least+1)
}

func clamp[N ~int64](n, least, most N) N { return min(max(n, least), most) }

// oneOf returns one of the numbers.
func oneOf[N ~int64](t *rapid.T, label string, numbers ...N) N {
	return numbers[rapid.IntRange(0, len(numbers)-1).Draw(t, label)]
}

// drawLimit returns any valid limit.
func drawLimit(t *rapid.T) Limit {
	l := Limit{Algorithm: Algorithm(rapid.IntRange(int(DefaultAlgorithm), int(InFlight)).Draw(t, "algorithm"))}
	if l.Algorithm == FixedWindow && rapid.Bool().Draw(t, "by the calendar") {
		return drawCalendar(t)
	}
	if l.Algorithm == SlidingWindow {
		l.Overlap = Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
	}
	if l.Algorithm == SlidingWindow || l.Algorithm == FixedWindow {
		l.Anchor = Anchor(rapid.IntRange(0, 1).Draw(t, "anchor"))
	}
	return drawSize(t, drawHold(t, l))
}

// drawHold makes refusals count, or reservations hold their units, or neither.
func drawHold(t *rapid.T, l Limit) Limit {
	l.CountRefused, l.Hold = false, 0
	if l.Algorithm == InFlight {
		return l
	}
	switch rapid.IntRange(0, 4).Draw(t, "refused or held") {
	case 0, 1:
		l.CountRefused = true
	case 2, 3:
		l.Hold = drawWindow(t, minWindow, MaxWindow)
		if l.Window > 0 && rapid.Bool().Draw(t, "about a window") {
			l.Hold = clamp(l.Window+draw(t, "hold", -l.Window/2, l.Window), minWindow, MaxWindow)
		}
	}
	return l
}

// someZones lists time zones with little in common: offsets of whole hours, halves and quarters; summer time in the north,
// in the south and by half an hour; midnights that do not exist; skipped days; and UTC.
var someZones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo",
	"Africa/Cairo", "Pacific/Apia", "Asia/Beirut", "America/St_Johns", "Pacific/Kiritimati", "Etc/GMT+12"}

// drawCalendar returns a limit with calendar windows.
func drawCalendar(t *rapid.T) Limit {
	return drawSize(t, Limit{
		Algorithm: FixedWindow, Calendar: Period(rapid.IntRange(int(Day), int(Year)).Draw(t, "period")),
		Zone: rapid.SampledFrom(someZones).Draw(t, "zone"), CountRefused: rapid.Bool().Draw(t, "count refused"),
	})
}

// drawSize adds a window, segments, a quota and a burst to a limit whose other options are set.
func drawSize(t *rapid.T, l Limit) Limit {
	if l.Algorithm == SlidingWindow && l.Segments == 0 {
		l.Segments = 1
		if rapid.Bool().Draw(t, "segmented") {
			l.Segments = rapid.IntRange(2, MaxSegments).Draw(t, "segments")
		}
	}
	n := Micros(max(1, l.Segments))
	if l.Algorithm == DefaultAlgorithm {
		n = Micros(rapid.IntRange(minDefaultParts, maxDefaultParts).Draw(t, "default parts"))
		l.Segments, l.Overlap = 0, OverlapUp
	}
	if l.Calendar == 0 {
		l.Window = n * drawWindow(t, (minWindow+n-1)/n, MaxWindow/n)
	}
	return drawQuota(t, l)
}

// drawWindow returns a duration, often one that users choose.
func drawWindow(t *rapid.T, least, most Micros) Micros {
	if rapid.Bool().Draw(t, "round window") {
		return clamp(oneOf(t, "window", milli, second, minute, 60*minute, 24*60*minute), least, most)
	}
	return draw(t, "window", least, most)
}

// drawQuota returns l with another quota, burst, overlap and count_refused, and the same shape.
func drawQuota(t *rapid.T, l Limit) Limit {
	most := int64(MaxQuota)
	if l.Algorithm == SlidingLog || l.Algorithm == InFlight {
		most = 40 // large ones only sometimes: their models are slow
		if rapid.IntRange(0, 99).Draw(t, "large log") == 99 {
			most = MaxLogQuota
		}
	}
	l.Quota = draw(t, "quota", 1, most)
	if l.Algorithm == DefaultAlgorithm && rapid.IntRange(0, 3).Draw(t, "small") > 0 {
		l.Quota = oneOf(t, "small quota", int64(1), 3, 20, DefaultLog-1, DefaultLog, DefaultLog+1, 2*DefaultLog)
	}
	if l.Algorithm == TokenBucket {
		fills := new(big.Int).Mul(big.NewInt(l.Quota), big.NewInt(int64(MaxWindow)))
		if fills.Quo(fills, big.NewInt(int64(l.Window))); fills.Cmp(big.NewInt(MaxQuota)) < 0 {
			most = fills.Int64()
		}
		l.Burst = draw(t, "burst", 1, most)
	}
	return normal(t, l)
}

// drawOrigin returns the time at which a script starts.
func drawOrigin(t *rapid.T, l *Limit) Micros {
	if l.Calendar != 0 && rapid.Bool().Draw(t, "at a change of clocks") {
		return drawChangeOfClocks(t, l)
	}
	switch rapid.IntRange(0, 2).Draw(t, "origin") {
	case 0:
		return spread(t, "near the epoch", 0, 2*l.Window)
	case 1:
		return MaxNow - spread(t, "near the end", 0, 2*l.Window)
	default:
		return 1_767_000_000*second + spread(t, "now", 0, l.Window)
	}
}

// drawChangeOfClocks returns a time near one at which clocks in the calendar's zone are set forward or back.
func drawChangeOfClocks(t *rapid.T, l *Limit) Micros {
	in, err := time.LoadLocation(l.Zone)
	if err != nil {
		t.Fatalf("%v", err)
	}
	at := time.UnixMicro(int64(spread(t, "changes after", 0, 2_200_000_000*second))).In(in)
	if _, until := at.ZoneBounds(); !until.IsZero() {
		at = until
	}
	return clamp(Micros(at.UnixMicro())+draw(t, "beside the change", -26*60*minute, 26*60*minute), 0, MaxNow)
}

// drawMoment returns the time of the next request: the same time, a little or a lot later or earlier, or a time at which
// something changes, or next to it.
func drawMoment(t *rapid.T, l *Limit, s *State, now Micros, last *Answer) Micros {
	part := l.Window
	if l.Algorithm == SlidingWindow || l.Algorithm == DefaultAlgorithm {
		part = l.part()
	}
	beside := rapid.Int64Range(-1, 1)
	next := now
	switch rapid.IntRange(0, 11).Draw(t, "step") {
	case 10:
		next += last.NextAfter + Micros(beside.Draw(t, "beside"))
	case 11:
		if l.Calendar != 0 {
			start, end := l.Bounds(now)
			next = oneOf(t, "bound", start, end) + Micros(beside.Draw(t, "beside"))
		}
	case 0:
	case 1:
		next += Micros(beside.Draw(t, "beside"))
	case 2:
		next += spread(t, "within a part", 0, part)
	case 3, 4: // where a part ends that the state is in, or a later one
		next = ownTime(l, s, now) + part*Micros(rapid.Int64Range(0, int64(l.Parts())+1).Draw(t, "parts")) + Micros(beside.Draw(t, "beside"))
	case 5:
		if last.RetryAfter != Never {
			next += last.RetryAfter + Micros(beside.Draw(t, "beside"))
		}
	case 6:
		next += last.ResetAfter + Micros(beside.Draw(t, "beside"))
	case 7:
		next += spread(t, "within a window", -l.Window, l.Window)
	case 8: // where the state begins to be a window ahead
		next = ownTime(l, s, now) - l.Window + Micros(beside.Draw(t, "beside"))
	case 9:
		next += spread(t, "jump", -4*l.Window, 4*l.Window)
	}
	return clamp(next, 0, MaxNow)
}

// ownTime returns the time that a state stores, if any.
func ownTime(l *Limit, s *State, now Micros) Micros {
	switch {
	case !s.Log.empty():
		return s.Log.newest()
	case l.Algorithm == InFlight && len(s.Slots) > 0:
		return s.Slots[len(s.Slots)-1].Renewed
	case l.Algorithm == TokenBucket && !s.fullBucket():
		return s.Start
	case l.Parts() > 0 && !s.absentWindow():
		return s.Start
	}
	return now
}

// drawCost returns a cost, often exactly what is left or one more.
func drawCost(t *rapid.T, l *Limit, room int64) int64 {
	capacity := l.Capacity()
	if l.Algorithm == InFlight {
		return min(1, rapid.Int64Range(0, 5).Draw(t, "slot"))
	}
	switch rapid.IntRange(0, 5).Draw(t, "cost kind") {
	case 0:
		return 1
	case 1:
		return clamp(room+rapid.Int64Range(-1, 1).Draw(t, "beside room"), 0, MaxQuota)
	case 2:
		return clamp(capacity+rapid.Int64Range(-1, 1).Draw(t, "beside capacity"), 0, MaxQuota)
	case 3:
		return rapid.Int64Range(0, min(5, MaxQuota)).Draw(t, "small")
	case 4:
		return draw(t, "cost", 0, int64(MaxQuota))
	default:
		return spread(t, "part of it", 0, capacity)
	}
}

// drawStep returns the next request to a state.
func drawStep(t *rapid.T, l *Limit, s *State, now Micros, last *Answer) step {
	st := step{at: drawMoment(t, l, s, now, last)}
	st.cost = drawCost(t, l, l.viewAt(s, st.at).Room)
	st.id = drawID(t, l)
	st.hold = rapid.Bool().Draw(t, "hold")
	switch rapid.IntRange(0, 17).Draw(t, "op") {
	case 16:
		st.op, st.back = Settle, drawBack(t, l, s, now, st.at, last)
		st.once = rapid.Bool().Draw(t, "by id")
		st.used = drawCost(t, l, l.viewAt(s, st.at).Room)
		if rapid.Bool().Draw(t, "nothing used") {
			st.used = 0
		}
		st.id = ID(rapid.IntRange(1, 6).Draw(t, "reservation"))
	case 17:
		st.op = Renew
	case 0:
		st.op = TakeUpTo
	case 1:
		st.op = Peek
	case 2:
		st.op = Charge
	case 3, 4:
		st.op = GiveBack
		st.back = drawBack(t, l, s, now, st.at, last)
	case 5:
		if rapid.IntRange(0, 3).Draw(t, "reset") == 0 {
			st.op = Reset
		}
	default:
		st.once = rapid.IntRange(0, 3).Draw(t, "once") == 0
	}
	return st
}

// drawID returns a reservation's ID, if the limit needs one: one of a few, so that IDs recur.
func drawID(t *rapid.T, l *Limit) ID {
	if l.Algorithm != InFlight {
		return ID(rapid.IntRange(1, 6).Draw(t, "id"))
	}
	return ID(rapid.IntRange(1, int(min(l.Quota, 30))+3).Draw(t, "id"))
}

// drawBack returns the time from which units are to be given back.
func drawBack(t *rapid.T, l *Limit, s *State, now, at Micros, last *Answer) Micros {
	switch rapid.IntRange(0, 3).Draw(t, "back") {
	case 0:
		return Oldest
	case 1:
		return last.At
	case 2:
		return ownTime(l, s, now)
	default:
		return clamp(at-spread(t, "ago", -1, 3*l.Window), 1, MaxNow)
	}
}
