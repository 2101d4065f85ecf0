package kvstore

import (
	"maps"
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

// longSettlements is the number of settlements from which on a generation is no longer kept for rule.LongMemory, so that an
// entry stays small.
const longSettlements = 150

// decideSettle settles a reservation unless it was settled before. Two records contain the generations of settlements at the
// address of the first charge.
func (e *entry) decideSettle(items []rule.Item, now rule.Micros, r *store.Request) error {
	var memory rule.Micros
	var maxSettled int64
	for i := range items {
		memory, maxSettled = max(memory, items[i].Limit.Memory()), max(maxSettled, items[i].Limit.Settlements())
	}
	var memo rule.Memo
	if memory == 0 { // only slots, which can be released any number of times
		rule.DecideOnce(rule.Settle, false, items, &memo, now, r.Answers)
		return nil
	}
	id := recordID(settlementKind, r.Charges[0].Limit.Prefix(), r.Group, r.Charges[0].Key) + "\x00" + strconv.FormatInt(int64(memory), 36)
	ids := [2]string{id + ".0", id + ".1"}
	newer, err := e.settlements(ids[0])
	if err != nil {
		return err
	}
	older, err := e.settlements(ids[1])
	if err != nil {
		return err
	}
	if older.number > newer.number {
		newer, older, ids[0] = older, newer, ids[1]
	}
	for _, g := range []*generation{newer, older} {
		if back, known := g.back[r.ID]; known {
			memo.Known, memo.Record = true, back
		}
	}
	at := rule.SettledAt(items, now)
	rotates := newer.Rotates(at, memory, min(maxSettled, longSettlements))
	memo.Full = !memo.Known && !rotates && newer.Count >= maxSettled
	if rule.DecideOnce(rule.Settle, false, items, &memo, now, r.Answers); !memo.Changed {
		return nil
	}
	g := newer.with(r.ID, memo.Record, at, memory)
	name := ids[0]
	if rotates {
		next := generation{Generation: newer.Next(), number: newer.number + 1}
		g = next.with(r.ID, memo.Record, at, memory)
		name = id + "." + strconv.FormatInt(g.number%2, 10)
	}
	e.setSettlements(name, g, g.Expires())
	return nil
}

// with returns a generation with one more settlement.
func (g *generation) with(id rule.ID, back []int64, at, memory rule.Micros) *generation {
	next := &generation{Generation: g.Generation, number: g.number, back: maps.Clone(g.back)}
	if next.back == nil {
		next.back = map[rule.ID][]int64{}
	}
	next.back[id] = back
	next.Add(at, memory)
	return next
}
