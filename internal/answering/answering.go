// Package answering has what limiters and layers do with the answers of stores.
package answering

import "github.com/slidegate/slidegate/rule"

// Deciding returns the index of the answer that decides a request over several limits, and whether the request is allowed:
// the refusal with the latest RetryAfter, or the admission with the least remaining; among several that left nothing, the one
// with the latest NextAfter.
func Deciding(answers []rule.Answer) (index int, allowed bool) {
	allowed = true
	for i := range answers {
		allowed = allowed && answers[i].Allowed
	}
	for i := range answers {
		a, best := &answers[i], &answers[index]
		if allowed && (a.Remaining < best.Remaining || a.Remaining == best.Remaining && a.NextAfter > best.NextAfter) ||
			!allowed && !a.Allowed && (best.Allowed || a.RetryAfter > best.RetryAfter) {
			index = i
		}
	}
	return index, allowed
}

// After returns the NextAfter of an admission or the RetryAfter of a refusal.
func After(a *rule.Answer) rule.Micros {
	if a.Allowed {
		return a.NextAfter
	}
	return a.RetryAfter
}

// Fallbacks are the flags of answers that were made without the store, because it did not answer in time.
const Fallbacks = rule.FallbackOpen | rule.FallbackClosed | rule.FallbackLocal

// A layer that decides in place of the store marks the time of its answers, so that units are returned to where they were
// taken.

// markShift is how many bits a marked time has, below its mark: those that a float64 has, enough until the year 2255.
const markShift = 53

// MaxMark is the largest mark.
const MaxMark = 1<<(63-markShift) - 1

// Mark returns the time at as the At of an answer that did not come from the store; see rule.Answer.At. The mark, 1 to
// MaxMark, says where the units were counted, and 0 that they were counted nowhere.
func Mark(at rule.Micros, mark int) rule.Micros {
	return -(min(max(at, -at, 1), 1<<markShift-1) | rule.Micros(mark)<<markShift)
}

// Unmark returns the time of an answer's At and its mark, which is -1 for a time of the store.
func Unmark(marked rule.Micros) (at rule.Micros, mark int) {
	if marked >= 0 {
		return marked, -1
	}
	return -marked & (1<<markShift - 1), int(-marked >> markShift & MaxMark)
}
