package seen

import (
	"cmp"
	"slices"
	"time"
)

// source is what is known of one instance.
type source struct {
	note     *note // nil if there is none, or none that can be read
	seen     time.Time
	foreign  bool // it writes what cannot be read
	number   int  // of its document
	revision uint64
	quiet    int // how often that was read since it last changed
}

// alive reports whether the instance was heard of lately. While the store does not answer, that stays.
func (s *source) alive() bool { return s.quiet < quietReads }

// merge makes one document of what the instances have seen: lists of at most n keys. The first source is the instance itself.
func merge(sources []source, secret []byte, now time.Time, n int) *Document {
	d := &Document{Now: now.UTC(), Self: sources[0].note.Instance.ID, Instances: []Instance{}, Keys: map[string]Keys{}}
	for _, s := range sources {
		i := s.note.Instance
		if i.RestartNeeded == nil {
			i.RestartNeeded = []string{}
		}
		i.Seen, i.Alive = s.seen.UTC(), s.alive()
		d.Instances = append(d.Instances, i)
	}
	slices.SortFunc(d.Instances[1:], func(a, b Instance) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	d.Policies = mergePolicies(sources, minuteOf(now))
	all := mergeKeys(sources)
	for w, name := range windowNames {
		d.Keys[name] = Keys{Refused: refusedMost(all, w, n, secret), Nearest: nearest(all, w, n, secret)}
	}
	return d
}

// mergePolicies adds up the counts of each policy. The policies of the instance itself come first, in their order.
func mergePolicies(sources []source, now int64) []Policy {
	all, index := []Policy{}, map[string]int{}
	minutes := map[string]map[int64]*Minute{}
	for _, s := range sources {
		for _, p := range s.note.Policies {
			i, known := index[p.Name]
			if !known {
				if len(all) > 2*maxPolicies {
					continue
				}
				i = len(all)
				index[p.Name] = i
				minutes[p.Name] = map[int64]*Minute{}
				all = append(all, Policy{Name: p.Name, Shadow: p.Shadow, Limits: append([]string{}, p.Limits...), Minutes: []Minute{}})
			}
			all[i].Varies = all[i].Varies || p.Varies
			if s.alive() {
				all[i].LeasesOut += p.LeasesOut
				all[i].HoldsOut += p.HoldsOut
				all[i].Waiting += p.Waiting
			}
			for _, m := range p.Minutes {
				if m[0] >= now-hour && m[0] <= now+1 {
					addMinute(minutes[p.Name], m)
				}
			}
		}
	}
	for i := range all {
		for _, m := range minutes[all[i].Name] {
			all[i].Minutes = append(all[i].Minutes, *m)
		}
		slices.SortFunc(all[i].Minutes, func(a, b Minute) int { return a.At.Compare(b.At) })
	}
	return all
}

func addMinute(to map[int64]*Minute, m noteMinute) {
	sum := to[m[0]]
	if sum == nil {
		sum = &Minute{At: time.Unix(m[0]*60, 0).UTC()}
		to[m[0]] = sum
	}
	sum.Admitted += m[1]
	sum.Refused += m[2]
	sum.ShadowRefused += m[3]
	sum.WithoutStore += m[4]
}

// merged is one key over all instances.
type merged struct {
	Key
	counts  [len(Windows)]Pair
	atLeast [len(Windows)]bool
	near    [len(Windows)]bool
	causes  []noteCause
	nearTo  string
	last    int64
	key     string
}

// keyName names a key.
type keyName struct{ policy, key string }

// mergeKeys adds up the counts of each key. A key that an instance does not mention, though it has more than it mentions, may have been
// seen there too, unless it has seen nothing of the policy.
func mergeKeys(sources []source) map[keyName]*merged {
	all := map[keyName]*merged{}
	for _, s := range sources {
		for i := range s.note.Keys {
			k := &s.note.Keys[i]
			name := keyName{s.note.Policies[k.Policy].Name, string(k.Key)}
			m := all[name]
			if m == nil {
				m = &merged{Key: Key{Policy: name.policy, Instances: []string{}, Routes: []string{}}, key: name.key}
				all[name] = m
			}
			m.add(k, s.note.Instance.ID)
		}
	}
	for _, s := range sources {
		if !s.note.Cut {
			continue
		}
		policies := map[string]bool{}
		for i := range s.note.Policies {
			policies[s.note.Policies[i].Name] = true
		}
		for name, m := range all {
			if policies[name.policy] && !slices.Contains(m.Instances, s.note.Instance.ID) {
				m.atLeast = [len(Windows)]bool{true, true, true}
			}
		}
	}
	return all
}

// add adds what one instance says.
func (m *merged) add(k *noteKey, instance string) {
	for w := range Windows {
		m.counts[w][0] += k.Counts[w][0]
		m.counts[w][1] += k.Counts[w][1]
		m.atLeast[w] = m.atLeast[w] || k.AtLeast[w]
		m.near[w] = m.near[w] || k.NearIn[w]
	}
	if k.Share >= m.Share && k.Near != "" {
		m.Share, m.nearTo = k.Share, k.Near
	}
	m.addCauses(k.Causes)
	if k.Last >= m.last {
		m.last, m.Last = k.Last, time.Unix(k.Last, 0).UTC()
		m.Plan = k.Plan
	}
	for _, route := range k.Routes {
		if len(m.Routes) < maxRoutes && !slices.Contains(m.Routes, route) {
			m.Routes = append(m.Routes, route)
		}
	}
	m.Instances = append(m.Instances, instance)
}

// in returns the key as it was in a window, without its ID.
func (m *merged) in(w int) Key {
	k := m.Key
	k.Admitted, k.Refused, k.AtLeast, k.Causes = m.counts[w][0], m.counts[w][1], m.atLeast[w], m.causesIn(w)
	if len(k.Causes) == 0 {
		k.Limit = m.nearTo
		return k
	}
	k.By, k.Limit, k.Shadow = k.Causes[0].By, k.Causes[0].Limit, k.Causes[0].Shadow
	for _, c := range k.Causes {
		if c.Shadow {
			k.ShadowRefused += c.Refused
		}
	}
	return k
}

func refusedMost(all map[keyName]*merged, w, n int, secret []byte) []Key {
	keys := []listedKey{}
	for _, m := range all {
		if m.counts[w][1] > 0 {
			k := m.in(w)
			if k.By == ByLimits || k.By == ByPenalty {
				k.Share = 1
			}
			keys = append(keys, listedKey{k, m.key})
		}
	}
	return first(keys, n, secret, func(a, b *listedKey) int {
		return cmp.Or(cmp.Compare(b.Refused-b.ShadowRefused, a.Refused-a.ShadowRefused), cmp.Compare(b.Refused, a.Refused))
	})
}

func nearest(all map[keyName]*merged, w, n int, secret []byte) []Key {
	keys := []listedKey{}
	for _, m := range all {
		if m.near[w] && m.counts[w][1] == 0 {
			keys = append(keys, listedKey{m.in(w), m.key})
		}
	}
	return first(keys, n, secret, func(a, b *listedKey) int { return cmp.Compare(b.Share, a.Share) })
}

// listedKey is a key of a list, with its text.
type listedKey struct {
	Key
	text string
}

// first returns the first n keys of a list in order, masked and with their IDs.
func first(list []listedKey, n int, secret []byte, order func(a, b *listedKey) int) []Key {
	slices.SortFunc(list, func(a, b listedKey) int {
		return cmp.Or(order(&a, &b), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.text, b.text))
	})
	keys := []Key{}
	for _, k := range list[:min(len(list), n)] {
		k.ID, k.Masked, k.Cut = idOf(secret, k.Policy, k.text), mask(k.text), IsCut(k.text)
		keys = append(keys, k.Key)
	}
	return keys
}
