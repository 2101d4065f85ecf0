package seen

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// source is what is known of one instance.
type source struct {
	note *note
	seen time.Time
	// forgiven is when the store answered again after an outage in which nothing could be heard of the instance; zero if there was none.
	forgiven time.Time
	// minutes are the counts by policy and minute, also those of earlier notes.
	minutes map[string]map[int64]noteMinute
}

// alive reports whether the instance was heard of lately.
func (s *source) alive(now time.Time) bool {
	return now.Sub(s.seen) < aliveFor || now.Sub(s.forgiven) < aliveFor
}

// keep adds the minutes of a note. A later note has the higher counts of a minute that has not ended.
func (s *source) keep(n *note, now int64) {
	if s.minutes == nil {
		s.minutes = map[string]map[int64]noteMinute{}
	}
	for _, p := range n.Policies {
		of := s.minutes[p.Name]
		if of == nil {
			if len(s.minutes) > 2*maxPolicies {
				continue
			}
			of = map[int64]noteMinute{}
			s.minutes[p.Name] = of
		}
		for _, m := range p.Minutes {
			if was, known := of[m[0]]; !known || m[1]+m[2]+m[3] >= was[1]+was[2]+was[3] {
				of[m[0]] = m
			}
		}
		for at := range of {
			if at < now-hour {
				delete(of, at)
			}
		}
	}
}

// merge makes one document of what the instances have seen: lists of at most n keys. The first source is the instance itself.
func merge(sources []*source, now time.Time, n int) *Document {
	d := &Document{Now: now.UTC(), Self: sources[0].note.Instance.ID, Instances: []Instance{}, Keys: map[string]Keys{}}
	for _, s := range sources {
		i := s.note.Instance
		if i.RestartNeeded == nil {
			i.RestartNeeded = []string{}
		}
		i.Seen, i.Alive = s.seen.UTC(), s.alive(now)
		d.Instances = append(d.Instances, i)
	}
	slices.SortFunc(d.Instances[1:], func(a, b Instance) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	d.Policies = mergePolicies(sources, now)
	all := mergeKeys(sources)
	for w, name := range windowNames {
		d.Keys[name] = Keys{Refused: refusedMost(all, w, n), Nearest: nearest(all, w, n)}
	}
	return d
}

// mergePolicies adds up the counts of each policy. The policies of the instance itself come first, in their order.
func mergePolicies(sources []*source, at time.Time) []Policy {
	now := minuteOf(at)
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
			if s.alive(at) {
				all[i].LeasesOut += p.LeasesOut
				all[i].HoldsOut += p.HoldsOut
				all[i].Waiting += p.Waiting
			}
		}
		for name, of := range s.minutes {
			to := minutes[name]
			for minute, m := range of {
				if to == nil || minute < now-hour || minute > now+1 {
					continue
				}
				sum := to[minute]
				if sum == nil {
					sum = &Minute{At: time.Unix(minute*60, 0).UTC()}
					to[minute] = sum
				}
				sum.Admitted += m[1]
				sum.Refused += m[2]
				sum.ShadowRefused += m[3]
				sum.WithoutStore += m[4]
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

// merged is one key over all instances.
type merged struct {
	Key
	counts  [len(Windows)]Pair
	atLeast [len(Windows)]bool
	near    [len(Windows)]bool
	causes  []noteCause
	nearTo  string
	last    int64
}

// mergeKeys adds up the counts of each key. A key that an instance does not mention, though it has more than it mentions, may have been
// seen there too, unless it has seen nothing of the policy.
func mergeKeys(sources []*source) map[keyName]*merged {
	all := map[keyName]*merged{}
	for _, s := range sources {
		for i := range s.note.Keys {
			k := &s.note.Keys[i]
			name := keyName{s.note.Policies[k.Policy].Name, k.ID}
			m := all[name]
			if m == nil {
				m = &merged{Key: Key{Policy: name.Policy, ID: name.ID, Instances: []string{}, Routes: []string{}}}
				all[name] = m
			}
			m.add(k, s.note.Instance.ID)
		}
	}
	for _, s := range sources {
		if !s.note.Cut {
			continue
		}
		mentioned, policies := map[keyName]bool{}, map[string]bool{}
		for i := range s.note.Policies {
			policies[s.note.Policies[i].Name] = true
		}
		for i := range s.note.Keys {
			mentioned[keyName{s.note.Policies[s.note.Keys[i].Policy].Name, s.note.Keys[i].ID}] = true
		}
		for name, m := range all {
			if !mentioned[name] && policies[name.Policy] {
				m.atLeast = [len(Windows)]bool{true, true, true}
			}
		}
	}
	return all
}

// add adds what one instance says.
func (m *merged) add(k *noteKey, instance string) {
	if k.Masked == "" && k.Counts == ([len(Windows)]Pair{}) {
		return // it does not know the key
	}
	for w := range Windows {
		m.counts[w][0] += k.Counts[w][0]
		m.counts[w][1] += k.Counts[w][1]
		m.atLeast[w] = m.atLeast[w] || k.AtLeast[w]
		m.near[w] = m.near[w] || k.NearIn[w]
	}
	if k.Share >= m.Share && k.Near != "" {
		m.Share, m.nearTo = k.Share, k.Near
	}
	m.addCauses(k.causes())
	if k.Last >= m.last {
		m.last, m.Last = k.Last, time.Unix(k.Last, 0).UTC()
		m.Plan = k.Plan
	}
	m.Cut = m.Cut || k.Cut
	if m.Masked == "" {
		m.Masked = k.Masked
	}
	for _, route := range k.Routes {
		if len(m.Routes) < maxRoutes && !slices.Contains(m.Routes, route) {
			m.Routes = append(m.Routes, route)
		}
	}
	m.Instances = append(m.Instances, instance)
}

// in returns the key as it was in a window.
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

func refusedMost(all map[keyName]*merged, w, n int) []Key {
	keys := []Key{}
	for _, m := range all {
		if m.counts[w][1] > 0 {
			k := m.in(w)
			if k.By == ByLimits || k.By == ByPenalty {
				k.Share = 1
			}
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Refused-b.ShadowRefused, a.Refused-a.ShadowRefused), cmp.Compare(b.Refused, a.Refused), compareNames(&a, &b))
	})
	return keys[:min(len(keys), n)]
}

func nearest(all map[keyName]*merged, w, n int) []Key {
	keys := []Key{}
	for _, m := range all {
		if m.near[w] && m.counts[w][1] == 0 {
			keys = append(keys, m.in(w))
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Or(cmp.Compare(b.Share, a.Share), compareNames(&a, &b)) })
	return keys[:min(len(keys), n)]
}

func compareNames(a, b *Key) int {
	return cmp.Or(strings.Compare(a.Policy, b.Policy), strings.Compare(a.ID, b.ID))
}
