package model

import (
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Check compares the answer of one limit with what is wanted.
func (want *Want) Check(got rule.Answer) error {
	if want.refund { // nothing is taken, so its time is of no use to anyone
		got.At = rule.Micros(want.At)
	}
	if got.Allowed != want.Allowed || got.Granted != want.Granted || got.Remaining != want.Remaining ||
		Micros(got.At) != want.At || (got.Flags&rule.ClockMoved != 0) != want.Moved {
		return fmt.Errorf("got allowed %v, granted %d, remaining %d, at %d, moved %v; want %v, %d, %d, %d, %v", got.Allowed, got.Granted,
			got.Remaining, got.At, got.Flags&rule.ClockMoved != 0, want.Allowed, want.Granted, want.Remaining, want.At, want.Moved)
	}
	if err := want.checkRetry(got.RetryAfter); err != nil {
		return err
	}
	full := func(room int64) bool { return room >= want.limit.capacity() }
	if err := want.exact("ResetAfter", Micros(got.ResetAfter), full); err != nil {
		return err
	}
	if !want.Allowed || want.Remaining > 0 {
		if got.NextAfter != 0 {
			return fmt.Errorf("NextAfter is %d although nothing is exhausted by an admission", got.NextAfter)
		}
		return nil
	}
	return want.exact("NextAfter", Micros(got.NextAfter), func(room int64) bool { return room >= 1 })
}

func (want *Want) checkRetry(after rule.Micros) error {
	switch {
	case want.Allowed && after != 0:
		return fmt.Errorf("RetryAfter is %d although it was allowed", after)
	case want.Allowed:
		return nil
	case want.cost > want.limit.capacity() != (after == rule.Never):
		return fmt.Errorf("RetryAfter is %d for a cost of %d of %d", after, want.cost, want.limit.capacity())
	case after == rule.Never:
		return nil
	}
	return want.exact("RetryAfter", Micros(after), func(room int64) bool { return room >= want.cost })
}

// exact checks that something holds after a time and not a microsecond earlier.
func (want *Want) exact(name string, after Micros, holds func(room int64) bool) error {
	at := func(after Micros) (int64, bool) {
		t, _ := want.after.time(want.limit, want.now+after)
		room := want.after.room(want.limit, t)
		return room, holds(room)
	}
	if room, ok := at(after); !ok {
		return fmt.Errorf("%s is %d, but then there is room for %d", name, after, room)
	}
	if after > 0 {
		if room, ok := at(after - 1); ok {
			return fmt.Errorf("%s is %d, but already a microsecond earlier there is room for %d", name, after, room)
		}
	}
	return nil
}

// CheckDecision compares a decision with what is wanted of each limit.
func CheckDecision(got slidegate.Decision, wants []Want) error {
	answers := got.Answers
	if answers == nil {
		answers = []rule.Answer{{
			Allowed: got.Allowed, Flags: got.Flags, Granted: got.Granted, Remaining: got.Remaining, At: got.At,
			RetryAfter: micros(got.RetryAfter), ResetAfter: micros(got.ResetAfter), NextAfter: micros(got.NextAfter),
		}}
	}
	if len(answers) != len(wants) {
		return fmt.Errorf("got %d answers, want %d", len(answers), len(wants))
	}
	all := true
	for i := range wants {
		if err := wants[i].Check(answers[i]); err != nil {
			return fmt.Errorf("limit %d (%v): %w", i, wants[i].limit, err)
		}
		all = all && wants[i].Allowed
	}
	if got.Allowed != all {
		return fmt.Errorf("got allowed %v, want %v", got.Allowed, all)
	}
	return checkDeciding(got, answers)
}

// checkDeciding checks that the fields of a decision are those of the limit that decides: in a refusal the one with the latest
// RetryAfter, in an admission the one with the least Remaining, and among several with none left the one with the latest NextAfter.
func checkDeciding(got slidegate.Decision, answers []rule.Answer) error {
	a := answers[got.Index]
	for i, other := range answers {
		switch {
		case !got.Allowed && (a.Allowed || !other.Allowed && other.RetryAfter > a.RetryAfter):
			return fmt.Errorf("limit %d decides, but %d has a later RetryAfter", got.Index, i)
		case got.Allowed && (other.Remaining < a.Remaining || other.Remaining == 0 && a.Remaining == 0 && other.NextAfter > a.NextAfter):
			return fmt.Errorf("limit %d decides, but %d has less Remaining or a later NextAfter", got.Index, i)
		}
	}
	if got.Remaining != a.Remaining || micros(got.RetryAfter) != a.RetryAfter || micros(got.ResetAfter) != a.ResetAfter ||
		micros(got.NextAfter) != a.NextAfter || got.At != a.At {
		return fmt.Errorf("the fields %+v are not those of limit %d, %+v", got, got.Index, a)
	}
	return nil
}

func micros(d time.Duration) rule.Micros {
	if d == slidegate.Never {
		return rule.Never
	}
	return rule.Micros(d.Microseconds())
}
