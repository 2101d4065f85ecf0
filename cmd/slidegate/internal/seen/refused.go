package seen

import (
	"cmp"
	"slices"
	"time"
)

// RefusedKey is a key that this instance has refused, with its text: for operators of this instance.
type RefusedKey struct {
	Policy, Key string
	Rule        string // the route without a method that it used most: a rule of Envoy's
	Refused     int64  // since the key is tracked
	Last        time.Time
	By          string // what refused it last
	Shadow      bool   // in shadow mode
}

// Refused returns the n most refused keys that are tracked, the most refused first.
func (r *Record) Refused(n int) (all []RefusedKey) {
	r.each(func(p *PolicyRecord) {
		p.eachShard(func(sh *shard) {
			for _, k := range sh.list {
				if k.refused > 0 {
					last := k.last()
					all = append(all, RefusedKey{p.name, k.key, k.rule(), k.refused, k.lastRefused, last.by, last.shadow})
				}
			}
		})
	})
	slices.SortFunc(all, func(a, b RefusedKey) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(len(all), n)]
}

// rule returns the route without a method that was used most.
func (k *entry) rule() (text string) {
	most := int32(0)
	for _, r := range k.routes {
		if r.method == "" && r.count > most {
			text, most = r.path, r.count
		}
	}
	return text
}

// Find returns the tracked keys of a policy that were refused and match, the most refused first.
func (r *Record) Find(policy string, matches func(key string) bool) (keys []string) {
	for _, k := range r.Refused(maxAll) {
		if k.Policy == policy && matches(k.Key) {
			keys = append(keys, k.Key)
		}
	}
	return keys
}
