package rulings

import "time"

// Table is the rulings of a moment. It does not change. A nil Table is empty.
type Table struct{ rulings map[name]*Ruling }

type name struct{ policy, key string }

// NewTable returns a table of these rulings. Of two about one key the later one counts.
func NewTable(all []Ruling) *Table {
	t := &Table{rulings: make(map[name]*Ruling, len(all))}
	for i := range all {
		t.rulings[name{all[i].Policy, all[i].Key}] = &all[i]
	}
	return t
}

// Empty reports whether there is no ruling at all, so that nobody need look.
func (t *Table) Empty() bool { return t == nil || len(t.rulings) == 0 }

// Find returns the ruling about a key that is in force now; nil if there is none.
func (t *Table) Find(policy, key string, now time.Time) *Ruling {
	if t.Empty() {
		return nil
	}
	if r := t.rulings[name{policy, key}]; r != nil && r.InForce(now) {
		return r
	}
	return nil
}
