package kvstore

import (
	"strconv"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// decide decides one request on an entry at the given time. If it returns an error, the entry is unchanged.
func (e *entry) decide(r *store.Request, now rule.Micros) error {
	ids, items := make([]string, 0, 4), make([]rule.Item, 0, 4) // on the stack for the usual number of charges
	states := make([]rule.State, len(r.Charges))
	for i := range r.Charges {
		c := &r.Charges[i]
		ids = append(ids, recordID(stateKind, c.Limit.Prefix(), r.Group, c.Key))
		state, err := e.state(ids[i], c.Limit.Rule())
		if err != nil {
			return err
		}
		states[i] = state.Clone()
		items = append(items, rule.Item{Limit: c.Limit.Rule(), State: &states[i], Cost: c.Cost, Used: c.Used, At: c.At, ID: r.ID})
	}
	if r.Op != rule.Settle {
		rule.Decide(r.Op, items, now, r.Answers)
	} else if err := e.decideSettle(items, now, r); err != nil {
		return err
	}
	for i := range items {
		if items[i].Changed {
			e.setState(ids[i], items[i].Limit, &states[i])
		}
	}
	return nil
}

// decideSettle settles a reservation unless it was settled before. Time is divided into periods as long as settlements must be
// remembered, and each period has one record. A settlement is written to the record of the current period, and looked up there and
// in the ones before and after, so it is known for at least that long and never has to be removed on its own.
func (e *entry) decideSettle(items []rule.Item, now rule.Micros, r *store.Request) error {
	var memory rule.Micros
	var maxSettled int64
	for i := range items {
		memory, maxSettled = max(memory, items[i].Limit.Memory()), max(maxSettled, items[i].Limit.Settlements())
	}
	var memo rule.Memo
	if memory == 0 { // only slots, which can be released any number of times
		rule.DecideSettle(items, &memo, now, r.Answers)
		return nil
	}
	address := recordID(settlementKind, r.Charges[0].Limit.Prefix(), r.Group, r.Charges[0].Key)
	period := func(number rule.Micros) string {
		return address + "\x00" + strconv.FormatInt(int64(memory), 36) + "." + strconv.FormatInt(int64(number), 36)
	}
	current := now / memory
	for _, number := range []rule.Micros{current, current - 1, current + 1} { // the next one in case the clock was set back
		settled, err := e.settlements(period(number))
		if err != nil {
			return err
		}
		if back, known := settled[r.ID]; known {
			memo.Known, memo.Returned = true, back
		} else if number == current {
			memo.Full = int64(len(settled)) >= maxSettled
		}
	}
	memo.Full = memo.Full && !memo.Known
	if rule.DecideSettle(items, &memo, now, r.Answers); memo.Changed {
		e.settle(period(current), r.ID, memo.Returned, (current+2)*memory)
	}
	return nil
}
