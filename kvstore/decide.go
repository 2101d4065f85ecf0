package kvstore

import (
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
		items = append(items, rule.Item{
			Limit: c.Limit.Rule(), State: &states[i], Cost: c.Cost, Used: c.Used, At: c.At, ID: r.ID, Hold: r.Hold,
		})
	}
	if r.Op != rule.Settle && !r.Once {
		rule.Decide(r.Op, items, now, r.Answers)
	} else if err := e.decideOnce(items, now, r); err != nil {
		return err
	}
	for i := range items {
		if items[i].Changed {
			e.setState(ids[i], items[i].Limit, &states[i])
		}
	}
	return nil
}

// longMemory is the number of IDs from which on a generation is no longer kept for rule.LongMemory, so that an entry stays small.
const longMemory = 150

// The most that an ID and a number of its record take in an entry. An entry remembers no more IDs when one of its generations takes a
// quarter of the largest value, so that there is space for both, and for the states.
const (
	idBytes     = 8 + 1
	numberBytes = 10
)

// decideOnce settles a reservation, or makes a call, unless that was done before. Two records contain the generations of IDs at the
// address of the first charge.
func (e *entry) decideOnce(items []rule.Item, now rule.Micros, r *store.Request) error {
	memory, most := r.Memory()
	var memo rule.Memo
	if memory == 0 { // it need not be remembered
		rule.DecideOnce(r.Op, r.Once, items, &memo, now, r.Answers)
		return nil
	}
	id := recordID(onceKind, r.Charges[0].Limit.Prefix(), r.Group, r.Charges[0].Key)
	ids := [2]string{id + "\x00", id + "\x01"}
	newer, err := e.generation(ids[0])
	if err != nil {
		return err
	}
	older, err := e.generation(ids[1])
	if err != nil {
		return err
	}
	if older.number > newer.number {
		newer, older, ids[0], ids[1] = older, newer, ids[1], ids[0]
	}
	for _, g := range []*generation{newer, older} { // the newer one contains what was settled of a call that the older one contains
		if record, known := g.done[r.ID]; known {
			memo.Known, memo.Record = true, record
			break
		}
	}
	at := rule.SettledAt(items, now)
	rotates := newer.Rotates(at, memory, min(most, longMemory))
	memo.Full = !memo.Known && !rotates && (newer.Count >= most || newer.size > e.maxValue/4)
	if rule.DecideOnce(r.Op, r.Once, items, &memo, now, r.Answers); !memo.Changed {
		return nil
	}
	if rotates {
		newer, ids[0] = &generation{Generation: newer.Next(), number: newer.number + 1}, ids[1]
	}
	newer.add(r.ID, memo.Record, at, memory)
	e.setGeneration(ids[0], newer)
	return nil
}

// add adds an ID, or replaces the record of an ID that the generation contains.
func (g *generation) add(id rule.ID, record []int64, at, memory rule.Micros) {
	if g.done == nil {
		g.done = map[rule.ID][]int64{}
	}
	g.Add(at, memory)
	g.done[id] = record
	g.Count = int64(len(g.done))
	g.size += idBytes + numberBytes*len(record)
}
