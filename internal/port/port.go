// Package port derives answers from what a port of the rule to another language returns, for the stores that decide on a
// server.
package port

import "github.com/slidegate/slidegate/rule"

// Answer derives an answer from a state after the decision at now. Moved is whether times were moved back with the clock, and
// hold whether the request was to hold its units.
func Answer(l *rule.Limit, s *rule.State, now rule.Micros, cost, granted int64, allowed, moved, hold bool) rule.Answer {
	a := l.Answer(s, now, cost, granted, allowed, hold)
	if moved {
		a.Flags |= rule.ClockMoved
	}
	return a
}

// AnswerLog is Answer for a sliding log, or for the slots of an in-flight limit, which the port keeps elsewhere; and for parts with
// overlap whole, of which a unit's time is the end of its part. Live is how many units
// count after the decision and newest is the time of the newest one. Blocking is the time of the unit that must expire
// before cost fits or, if the request was allowed, before one unit does. At is the time that decided, and moved is whether
// times were moved back with the clock.
func AnswerLog(l *rule.Limit, live int64, newest, blocking, now, at rule.Micros, moved bool, cost, granted int64, allowed bool) rule.Answer {
	a := rule.Answer{Allowed: allowed, Granted: granted, Remaining: max(0, l.Quota-live), At: at}
	if live > 0 {
		a.ResetAfter = newest + l.Window - now
	}
	switch {
	case allowed && a.Remaining == 0:
		a.NextAfter = blocking + l.Window - now
	case allowed:
	case cost > l.Quota:
		a.RetryAfter = rule.Never
	default:
		a.RetryAfter = blocking + l.Window - now
	}
	if moved {
		a.Flags |= rule.ClockMoved
	}
	return a
}

// Periods are the starts of three consecutive calendar periods, and of the one after them.
type Periods [4]rule.Micros

// PeriodsAround returns the previous, the current and the next period of a calendar limit: enough for a server whose clock differs by less
// than the shortest of them. Ports receive them, because only Go knows the time zones.
func PeriodsAround(l *rule.Limit, now rule.Micros) (p Periods) {
	p[1], p[2] = l.Bounds(now)
	p[0], _ = l.Bounds(p[1] - 1)
	_, p[3] = l.Bounds(p[2])
	return p
}
