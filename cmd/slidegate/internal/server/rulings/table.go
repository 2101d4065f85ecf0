package rulings

import (
	"cmp"
	"slices"
	"time"
)

// Table holds the rulings at one time. It is immutable. A nil Table is empty.
type Table struct{ rulings map[name]*Ruling }

type name struct{ policy, key string }

// NewTable returns a table of these rulings. Of two rulings about one key, the later is used.
func NewTable(all []Ruling) *Table {
	t := &Table{rulings: make(map[name]*Ruling, len(all))}
	for i := range all {
		t.rulings[name{all[i].Policy, all[i].Key}] = &all[i]
	}
	return t
}

// Empty reports whether there are no rulings at all, so that lookups can be skipped.
func (t *Table) Empty() bool { return t == nil || len(t.rulings) == 0 }

// Find returns the ruling about a key that is in force now, or nil if there is none.
func (t *Table) Find(policy, key string, now time.Time) *Ruling {
	if t.Empty() {
		return nil
	}
	if r := t.rulings[name{policy, key}]; r != nil && r.InForce(now) {
		return r
	}
	return nil
}

// InForce returns the rulings that are in force now, by policy and key.
func (t *Table) InForce(now time.Time) []Ruling {
	return t.filter(func(r *Ruling) bool { return r.InForce(now) })
}

// Count returns how many rulings are in force now.
func (t *Table) Count(now time.Time) (n int) {
	if t.Empty() {
		return 0
	}
	for _, r := range t.rulings {
		if r.InForce(now) {
			n++
		}
	}
	return n
}

// Of returns the rulings about the keys of a policy that are in force now, by key.
func (t *Table) Of(policy string, now time.Time) []Ruling {
	return t.filter(func(r *Ruling) bool { return r.Policy == policy && r.InForce(now) })
}

// filter returns the rulings that match, by policy and key.
func (t *Table) filter(match func(*Ruling) bool) (found []Ruling) {
	if t.Empty() {
		return nil
	}
	for _, r := range t.rulings {
		if match(r) {
			found = append(found, *r)
		}
	}
	slices.SortFunc(found, func(a, b Ruling) int { return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key)) })
	return found
}

// with returns a table with a change made to it.
func (t *Table) with(change Ruling) *Table {
	all := t.filter(func(r *Ruling) bool { return r.Policy != change.Policy || r.Key != change.Key })
	if change.Kind != Clear {
		all = append(all, change)
	}
	return NewTable(all)
}
