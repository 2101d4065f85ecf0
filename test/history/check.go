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
	maxCheckTime = time.Minute // for the history of one key
	maxLost      = 8           // unanswered requests for one key: the number of orders to search grows fast with them
)

// Check returns what is wrong with a history of the events of all processes together.
func Check(events []Event) error {
	limits, err := bound()
	if err != nil {
		return err
	}
	var undecided error
	for at, history := range operations(events) {
		switch porcupine.CheckOperationsTimeout(model(limits[at.limit].Rule()), history, maxCheckTime) {
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

// beforeTooManyLost returns the beginning of one key's events, up to a time before which at most maxLost requests were lost.
// Requests that were answered after that time count as unanswered. The beginning of a correct history is correct.
func beforeTooManyLost(events []Event) []Event {
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Call, b.Call) })
	lost := 0
	for i := range events {
		if events[i].Known || events[i].Forget {
			continue
		}
		if lost++; lost <= maxLost {
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
		histories[at] = operationsOf(beforeTooManyLost(some))
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

// lifeOf returns the life of its key that an answer belongs to. It is uncertain if the answer came while everything was
// being forgotten.
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

// plantedChanges are changes of an answer that Check must detect. Each returns false if it changes nothing.
var plantedChanges = map[string]func(e *Event) bool{
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

// maxPlaces is the number of requests at which a change is tried until it is detected.
const maxPlaces = 5

// CheckPlanted changes the answer to one request, in several ways, and returns the changes that Check does not
// detect at any of a few requests. (A concurrent request may happen to explain a single change.) A history in which
// nothing can be changed is also an error: it proves too little.
func CheckPlanted(events []Event) (errs []error) {
	for name, change := range plantedChanges {
		if err := checkPlanted(events, change); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errs
}

// AllowsPlanting reports whether a history has a request for each of the changes that CheckPlanted tries.
func AllowsPlanting(events []Event) bool {
	for _, change := range plantedChanges {
		if !slices.ContainsFunc(events, func(e Event) bool { return e.Known && detectable(events, e) && change(&e) }) {
			return false
		}
	}
	return true
}

func checkPlanted(events []Event, change func(*Event) bool) error {
	err := errors.New("the history has nothing to change")
	tried := 0
	for i, e := range events {
		if !e.Known || !detectable(events, e) || !change(&e) {
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
		if tried++; tried == maxPlaces {
			break
		}
	}
	return err
}

// detectable reports whether the check can detect a change of an answer. It cannot if the answer came while everything was
// being forgotten, or if earlier requests for its key were lost, which might explain the change.
func detectable(events []Event, e Event) bool {
	if _, certain := lifeOf(&e, events); !certain {
		return false
	}
	return !slices.ContainsFunc(beginning(events, e), func(other Event) bool { return !other.Known && !other.Forget })
}

// beginning returns the requests for the key of last until last was answered. The checker may take very long to prove that
// no order explains a longer history.
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

// Summarize counts the events of a history.
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
