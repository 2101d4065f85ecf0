package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate/rule"
)

// address identifies the key of a history, under a limit.
type address struct{ limit, key int }

// ErrUndecided is wrapped by an error of Check that found nothing wrong but had no time to search all orders.
var ErrUndecided = errors.New("not enough time to decide")

const (
	mostTime = time.Minute // for the history of one key
	mostLost = 8           // requests for one key that were not answered: the number of orders to search grows fast with them
)

// Check returns what is wrong with a history of the events of all processes together.
func Check(events []Event) error {
	limits, err := bound()
	if err != nil {
		return err
	}
	var undecided error
	for at, history := range operations(events) {
		switch porcupine.CheckOperationsTimeout(model(limits[at.limit].Rule()), history, mostTime) {
		case porcupine.Illegal:
			return fmt.Errorf("the rule explains no order of the %d requests for key %d under %s", len(history), at.key, Limits[at.limit].Name)
		case porcupine.Unknown:
			undecided = fmt.Errorf("the %d requests for key %d under %s: %w", len(history), at.key, Limits[at.limit].Name, ErrUndecided)
		}
	}
	if err := checkLogs(events); err != nil {
		return err
	}
	return undecided
}

// untilLost returns the beginning of one key's events in which few enough requests were lost to search: up to a time,
// from which on unanswered requests count as not answered. The beginning of a correct history is correct.
func untilLost(events []Event) []Event {
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Call, b.Call) })
	lost := 0
	for i := range events {
		if events[i].Known || events[i].Forget {
			continue
		}
		if lost++; lost <= mostLost {
			continue
		}
		kept, end := events[:i], events[i].Call
		for j := range kept {
			if e := &kept[j]; e.Return >= end && !e.Forget {
				e.Known, e.Return = false, end
			}
		}
		return kept
	}
	return events
}

// operations converts events for the checker, one history per key and window.
func operations(events []Event) map[address][]porcupine.Operation {
	byAddress := map[address][]Event{}
	for _, e := range events {
		if at := (address{e.Limit, e.Key}); !e.Forget && !isLog(e.Limit) {
			byAddress[at] = append(byAddress[at], e)
		}
	}
	histories := map[address][]porcupine.Operation{}
	for at, some := range byAddress {
		for _, e := range events {
			if e.Forget {
				some = append(some, e)
			}
		}
		histories[at] = operationsOf(untilLost(some))
	}
	return histories
}

// operationsOf converts the events of one key for the checker.
func operationsOf(events []Event) (ops []porcupine.Operation) {
	var end int64
	for i := range events {
		end = max(end, events[i].Return)
	}
	for i := range events {
		e := &events[i]
		op := porcupine.Operation{
			ClientId: e.Client, Call: e.Call, Return: e.Return,
			Input: input{op: e.Op, cost: e.Cost, id: e.ID, called: rule.Micros(e.Call) / 1_000, end: rule.Micros(end) / 1_000, forget: e.Forget}, Output: output{},
		}
		switch {
		case e.Known:
			op.Output = output{&e.Answer}
		case !e.Forget:
			op.Return = end + int64(time.Hour)
		}
		ops = append(ops, op)
	}
	return ops
}

// life is the life of a key between two times at which it was forgotten.
type life struct {
	address
	forgotten int // how often before
}

// lifeOf returns to which life of its key an answer belongs. That is uncertain if it came while everything was
// forgotten.
func lifeOf(e *Event, events []Event) (of life, certain bool) {
	of.address = address{e.Limit, e.Key}
	for i := range events {
		f := &events[i]
		switch {
		case !f.Forget || e.Answer.At < rule.Micros(f.Call/1_000):
		case e.Answer.At <= rule.Micros(f.Return/1_000):
			return of, false
		default:
			of.forgotten++
		}
	}
	return of, true
}

// checkLogs checks that in no window more units of a sliding log were certainly admitted than the quota.
func checkLogs(events []Event) error {
	times := map[life][]rule.Micros{}
	forgets := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return !e.Forget })
	for i := range events {
		e := &events[i]
		if e.Forget || !e.Known || !isLog(e.Limit) {
			continue
		}
		of, certain := lifeOf(e, forgets)
		for range e.Answer.Granted {
			if certain {
				times[of] = append(times[of], e.Answer.At)
			}
		}
	}
	for of, at := range times {
		slices.Sort(at)
		limit := &Limits[of.limit]
		quota := int(limit.Quota)
		for i := quota; i < len(at); i++ {
			if length := at[i] - at[i-quota]; length < rule.Micros(limit.Window.Microseconds()) {
				return fmt.Errorf("key %d: %d units were admitted within %dus, of a quota of %d", of.key, quota+1, length, quota)
			}
		}
	}
	return nil
}

// planted are changes of an answer that Check has to detect. Each returns false where it changes nothing.
var planted = map[string]func(e *Event) bool{
	"an admission instead of a refusal": func(e *Event) bool {
		if e.Op != rule.Take || e.Answer.Allowed || isLog(e.Limit) {
			return false
		}
		e.Answer.Allowed, e.Answer.Granted, e.Answer.NextAfter, e.Answer.RetryAfter = true, e.Cost, e.Answer.RetryAfter, 0
		return true
	},
	"one unit less": func(e *Event) bool {
		if isLog(e.Limit) || e.Answer.Remaining == 0 {
			return false
		}
		e.Answer.Remaining--
		return true
	},
	"a later time to retry": func(e *Event) bool {
		if isLog(e.Limit) || e.Answer.RetryAfter == 0 {
			return false
		}
		e.Answer.RetryAfter++
		return true
	},
	"a slot more than there are": func(e *Event) bool {
		if !isSlots(e.Limit) || e.Op != rule.Take || e.Answer.Allowed {
			return false
		}
		e.Answer.Allowed, e.Answer.Granted, e.Answer.NextAfter, e.Answer.RetryAfter = true, 1, e.Answer.RetryAfter, 0
		return true
	},
	"a slot that was lost": func(e *Event) bool {
		if !isSlots(e.Limit) || e.Op != rule.Renew || !e.Answer.Allowed {
			return false
		}
		e.Answer.Allowed, e.Answer.Granted, e.Answer.NextAfter = false, 0, 0
		return true
	},
	"a log's quota once more": func(e *Event) bool {
		if !isLog(e.Limit) || !e.Answer.Allowed {
			return false
		}
		e.Answer.Granted += Limits[e.Limit].Quota
		return true
	},
}

// mostPlanted is in how many places a change is tried until it is detected.
const mostPlanted = 5

// CheckPlanted changes the answer to one request, in several ways, and returns which of the changes Check does not
// detect in any of a few places. (In a single place a concurrent request may happen to explain it.) A history in which
// nothing can be changed is an error too: it proves too little.
func CheckPlanted(events []Event) (errs []error) {
	for name, change := range planted {
		if err := checkPlanted(events, change); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errs
}

// AllowsPlanting reports whether a history has a place for each of the changes that CheckPlanted tries.
func AllowsPlanting(events []Event) bool {
	for _, change := range planted {
		if !slices.ContainsFunc(events, func(e Event) bool { return e.Known && lookedAt(events, e) && change(&e) }) {
			return false
		}
	}
	return true
}

func checkPlanted(events []Event, change func(*Event) bool) error {
	err := errors.New("the history has nothing to change")
	tried := 0
	for i, e := range events {
		if !e.Known || !lookedAt(events, e) || !change(&e) {
			continue
		}
		changed := slices.Clone(events)
		changed[i] = e
		switch found := Check(beginning(changed, e)); {
		case found == nil:
			err = fmt.Errorf("the check does not detect it: %+v", e)
		case errors.Is(found, ErrUndecided):
			err = found
		default:
			return nil
		}
		if tried++; tried == mostPlanted {
			break
		}
	}
	return err
}

// lookedAt reports whether the check can detect a change of an answer: not if it came while everything was forgotten,
// and not if earlier requests for its key were lost, which might explain it.
func lookedAt(events []Event, e Event) bool {
	if _, certain := lifeOf(&e, events); !certain {
		return false
	}
	return !slices.ContainsFunc(beginning(events, e), func(other Event) bool { return !other.Known && !other.Forget })
}

// beginning returns the requests for the key of one request until that was answered. Proving that no order explains a
// longer history can take the checker very long.
func beginning(events []Event, last Event) (kept []Event) {
	for _, e := range events {
		if e.Call <= last.Return && (e.Forget || e.Key == last.Key && e.Limit == last.Limit) {
			kept = append(kept, e)
		}
	}
	return kept
}

// Summary counts the events of a history.
type Summary struct{ Requests, Answered, Admitted, Forgotten int }

// Summarize counts.
func Summarize(events []Event) (s Summary) {
	for i := range events {
		switch e := &events[i]; {
		case e.Forget:
			s.Forgotten++
		case e.Known:
			s.Requests++
			s.Answered++
			if e.Op == rule.Take && e.Answer.Allowed {
				s.Admitted++
			}
		default:
			s.Requests++
		}
	}
	return s
}
