package seen

import (
	"cmp"
	"slices"
)

// Find returns the keys of a policy that this instance has refused and that match, the most refused first.
func (r *Record) Find(policy string, matches func(key string) bool) (keys []string) {
	p := r.find(policy)
	if p == nil {
		return nil
	}
	for _, k := range p.refused() {
		if matches(k.key) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// refusedKey is a key with its refusals since it is tracked.
type refusedKey struct {
	key string
	n   int64
}

// refused returns the keys that were refused, the most refused first.
func (p *PolicyRecord) refused() (all []refusedKey) {
	p.eachShard(func(sh *shard) {
		for _, k := range sh.list {
			if k.refused > 0 {
				all = append(all, refusedKey{k.key, k.refused})
			}
		}
	})
	slices.SortFunc(all, func(a, b refusedKey) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.key, b.key)) })
	return all
}
