package rule

import (
	"math/big"
	"time"

	"pgregory.net/rapid"
)

// Random limits, moments and costs. They are drawn from the whole accepted range, and often from where mistakes live: at
// boundaries and a microsecond or a unit beside them, and at the ends of the ranges.

// draw returns a number from least to most. Small ones, those near the ends and those near powers of two are common.
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

// spread returns a number from least to most, all over that range: rapid's own are mostly small ones.
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

// drawLimit returns any limit there can be.
func drawLimit(t *rapid.T) Limit {
	l := Limit{Algorithm: Algorithm(rapid.IntRange(int(SlidingLog), int(InFlight)).Draw(t, "algorithm"))}
	if l.Algorithm == FixedWindow && rapid.Bool().Draw(t, "by the calendar") {
		return drawCalendar(t)
	}
	if l.Algorithm == SlidingWindow {
		l.Overlap = Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
	}
	if l.Algorithm == SlidingWindow || l.Algorithm == FixedWindow {
		l.Anchor = Anchor(rapid.IntRange(0, 1).Draw(t, "anchor"))
	}
	l.CountDenied = l.Algorithm != InFlight && rapid.Bool().Draw(t, "count denied")
	return drawSize(t, l)
}

// Time zones with little in common: whole hours, halves and quarters, summer time in the north, in the south and by half an
// hour, midnights that do not exist, days that were left out, and none of it.
var someZones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo",
	"Africa/Cairo", "Pacific/Apia", "Asia/Beirut", "America/St_Johns", "Pacific/Kiritimati", "Etc/GMT+12"}

// drawCalendar returns a limit whose windows are those of a calendar.
func drawCalendar(t *rapid.T) Limit {
	return drawSize(t, Limit{
		Algorithm: FixedWindow, Calendar: Period(rapid.IntRange(int(Day), int(Year)).Draw(t, "period")),
		Zone: rapid.SampledFrom(someZones).Draw(t, "zone"), CountDenied: rapid.Bool().Draw(t, "count denied"),
	})
}

// drawSize gives a limit of which the choices are made its window, segments, quota and burst.
func drawSize(t *rapid.T, l Limit) Limit {
	if l.Algorithm == SlidingWindow && l.Segments == 0 {
		l.Segments = 1
		if rapid.Bool().Draw(t, "segmented") {
			l.Segments = rapid.IntRange(2, MaxSegments).Draw(t, "segments")
		}
	}
	if n := Micros(max(1, l.Segments)); l.Calendar == NoPeriod {
		l.Window = n * drawWindow(t, (MinWindow+n-1)/n, MaxWindow/n)
	}
	return drawQuota(t, l)
}

// drawWindow returns a length, often one as people choose them.
func drawWindow(t *rapid.T, least, most Micros) Micros {
	if rapid.Bool().Draw(t, "round window") {
		return clamp(oneOf(t, "window", milli, second, minute, 60*minute, 24*60*minute), least, most)
	}
	return draw(t, "window", least, most)
}

// drawQuota gives a limit another quota, burst, overlap and count_denied over the same shape.
func drawQuota(t *rapid.T, l Limit) Limit {
	most := int64(MaxQuota)
	if l.Algorithm == SlidingLog || l.Algorithm == InFlight {
		most = 40 // large ones only now and then: their models are slow
		if rapid.IntRange(0, 99).Draw(t, "large log") == 99 {
			most = MaxLogQuota
		}
	}
	l.Quota = draw(t, "quota", 1, most)
	if l.Algorithm == TokenBucket {
		fills := new(big.Int).Mul(big.NewInt(l.Quota), big.NewInt(int64(MaxWindow)))
		if fills.Quo(fills, big.NewInt(int64(l.Window))); fills.Cmp(big.NewInt(MaxQuota)) < 0 {
			most = fills.Int64()
		}
		l.Burst = draw(t, "burst", 1, most)
	}
	return normal(t, l)
}

// drawOrigin returns the moment at which a script starts.
func drawOrigin(t *rapid.T, l *Limit) Micros {
	if l.Calendar != NoPeriod && rapid.Bool().Draw(t, "at a change of clocks") {
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

// drawChangeOfClocks returns a moment near one at which the clocks of a calendar's zone are set forward or back.
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

// drawMoment returns when the next question is asked: at the same moment, a little or a lot later or earlier, or at one
// of the moments at which something changes, or beside it.
func drawMoment(t *rapid.T, l *Limit, s *State, now Micros, last *Answer) Micros {
	part := l.Window
	if l.Algorithm == SlidingWindow {
		part = l.part()
	}
	beside := rapid.Int64Range(-1, 1)
	next := now
	switch rapid.IntRange(0, 11).Draw(t, "step") {
	case 10:
		next += last.NextAfter + Micros(beside.Draw(t, "beside"))
	case 11:
		if l.Calendar != NoPeriod {
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

// ownTime is the time that a state remembers, if it does.
func ownTime(l *Limit, s *State, now Micros) Micros {
	switch {
	case l.Algorithm == SlidingLog && !s.Log.empty():
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

// drawCost returns a cost, often just what there is room for or one more.
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

// drawStep returns the next question to a state.
func drawStep(t *rapid.T, l *Limit, s *State, now Micros, last *Answer) step {
	st := step{at: drawMoment(t, l, s, now, last)}
	st.cost = drawCost(t, l, l.Look(s, st.at).Room)
	st.id = drawID(t, l)
	switch rapid.IntRange(0, 17).Draw(t, "op") {
	case 16:
		st.op, st.back = Settle, drawBack(t, l, s, now, st.at, last)
		st.used = drawCost(t, l, l.Look(s, st.at).Room)
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
	}
	return st
}

// drawID returns the ID of a reservation, if the limit needs one: one of a few, so that they meet again.
func drawID(t *rapid.T, l *Limit) ID {
	if l.Algorithm != InFlight {
		return 0
	}
	return ID(rapid.IntRange(1, int(min(l.Quota, 30))+3).Draw(t, "id"))
}

// drawBack returns the moment from which units are to be given back.
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
