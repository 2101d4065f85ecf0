package rulings

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/slidegate/slidegate/policy"
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

// Apply puts the rulings about the policies of a set into force, in place of those before. A ruling that a policy does not accept is
// left out and passed to invalid.
func (t *Table) Apply(set *policy.Set, invalid func(r *Ruling, err error)) {
	now := time.Now()
	for i, name := range set.Names() {
		applyTo(set, i, t.Of(name, now), invalid)
	}
}

// applyTo puts the rulings about one policy of a set into force.
func applyTo(set *policy.Set, index int, rulings []Ruling, invalid func(r *Ruling, err error)) {
	all, valid := make([]policy.Ruling, len(rulings)), true
	for i := range rulings {
		var err error
		all[i], err = rulings[i].PolicyRuling()
		valid = valid && err == nil
	}
	if valid && set.SetRulings(index, all) == nil {
		return // the usual case, in which each is compiled once
	}
	all = all[:0]
	for i := range rulings {
		ruling, err := rulings[i].PolicyRuling()
		if err == nil {
			err = set.CheckRuling(index, ruling)
		}
		if err != nil {
			invalid(&rulings[i], err)
			continue
		}
		all = append(all, ruling)
	}
	_ = set.SetRulings(index, all) // all were checked
}

// FollowSet makes a set of policies follow the book until unfollow is called.
func (b *Book) FollowSet(set *policy.Set) (unfollow func()) {
	return b.Follow(Follower{
		Apply: func(t *Table) {
			t.Apply(set, func(r *Ruling, err error) {
				b.log.Error("ruling cannot be applied; remove it or change it", slog.String("policy", r.Policy), slog.Any("error", err))
			})
		},
		Check: func(r *Ruling) (known bool, err error) {
			index := slices.Index(set.Names(), r.Policy)
			if index < 0 {
				return false, nil
			}
			read, err := set.ReadKey(index, r.Key)
			if err != nil {
				return true, &FieldError{Field: "key", Err: err}
			}
			if r.Key = read.Text; r.Kind == Clear || r.Kind == Reset {
				return true, nil
			}
			ruling, err := r.PolicyRuling()
			if err == nil {
				err = set.CheckRuling(index, ruling)
			}
			if err != nil {
				err = &FieldError{Field: "limits", Err: err}
			}
			return true, err
		},
	})
}
