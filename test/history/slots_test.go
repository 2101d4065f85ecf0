package history

import (
	"testing"

	"github.com/slidegate/slidegate/rule"
)

const slots = 3 // the place of the limit

// slot is a request about a slot that was answered at a moment.
func slot(op rule.Op, id rule.ID, when rule.Micros, allowed bool, remaining int64) Event {
	e := Event{
		Limit: slots, Op: op, Cost: 1, ID: id, Call: at(when), Return: at(when + 10), Known: true,
		Answer: rule.Answer{At: base + when, Allowed: allowed, Remaining: remaining},
	}
	if op == rule.Settle && allowed {
		e.Answer.Granted = 1
	}
	return e
}

// lostSlot is a request about a slot that was not answered.
func lostSlot(op rule.Op, id rule.ID, when rule.Micros) Event {
	return Event{Limit: slots, Op: op, Cost: 1, ID: id, Call: at(when), Return: at(when + 10)}
}

func TestSlots(t *testing.T) {
	if !isSlots(slots) {
		t.Fatal("the slots are not where they were")
	}
	const take, renew, release = rule.Take, rule.Renew, rule.Settle
	both := []Event{slot(take, 1, 0, true, 1), slot(take, 2, 100, true, 0)}
	for _, c := range []struct {
		name   string
		events []Event
		fine   bool
	}{
		{"two of two", both, true},
		{"a third is refused", append(both, slot(take, 3, 200, false, 0)), true},
		{"a third is admitted", append(both, slot(take, 3, 200, true, 0)), false},
		{"one has run out", append(both, slot(take, 3, second, true, 0)), true},
		{"one has not quite run out", append(both, slot(take, 3, second-1, true, 0)), false},
		{"one is renewed", append(both, slot(renew, 1, 300, true, 0), slot(take, 3, second, false, 0)), true},
		{"one is renewed and gone all the same", append(both, slot(renew, 1, 300, true, 0), slot(take, 3, second, true, 0)), false},
		{"one is released", append(both, slot(release, 1, 300, true, 1), slot(take, 3, 400, true, 0)), true},
		{"released twice", append(both, slot(release, 1, 300, true, 1), slot(release, 1, 400, false, 1)), true},
		{"released twice, both done", append(both, slot(release, 1, 300, true, 1), slot(release, 1, 400, true, 2)), false},
		{"renewed after it ran out", append(both, slot(renew, 1, second, false, 1)), true},
		{"renewed after it ran out, and done", append(both, slot(renew, 1, second, true, 0)), false},
		{"a lost take that was carried out", append(both[:1:1], lostSlot(take, 2, 50), slot(take, 3, 200, false, 0)), true},
		{"a lost take that was not", append(both[:1:1], lostSlot(take, 2, 50), slot(take, 3, 200, true, 0)), true},
		{"a lost take holds no two slots", []Event{lostSlot(take, 1, 50), slot(take, 3, 200, false, 0)}, false},
		{"a lost renewal that was carried out", append(both, lostSlot(renew, 1, 300), slot(take, 3, second, false, 0)), true},
		{"a lost release that was carried out", append(both, lostSlot(release, 1, 300), slot(take, 3, 400, true, 0)), true},
		{"a lost release that was not", append(both, lostSlot(release, 1, 300), slot(take, 3, 400, false, 0)), true},
		{"what is lost frees one slot", append(both, lostSlot(release, 1, 300), slot(take, 3, 400, true, 0), slot(take, 4, 500, true, 0)), false},
	} {
		if err := Check(c.events); (err == nil) != c.fine {
			t.Errorf("%s: got the error %v, want one: %v", c.name, err, !c.fine)
		}
	}
}
