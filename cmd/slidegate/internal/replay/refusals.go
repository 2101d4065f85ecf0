package replay

import (
	"cmp"
	"slices"
)

// The counts of refused requests are bounded: if there are more different values than these, the rarer half is dropped,
// and counted from zero if it occurs again.
const (
	maxValues    = 1 << 14 // per trait
	maxKeyValues = 16      // per trait of a key
	maxProfiles  = 1 << 12 // keys
	topValues    = 5
	topKeyValues = 3
)

// refusals counts the traits of refused requests, for all keys together and for single keys.
type refusals struct {
	all   profileCounts
	byKey map[keyRef]*profileCounts
}

// profileCounts counts the traits of some requests.
type profileCounts struct {
	counted int64
	traits  [traitCount]valueCounts
}

func (c *profileCounts) add(traits *[traitCount]string, most int) {
	c.counted++
	for i, value := range traits {
		if c.traits[i] == nil {
			c.traits[i] = valueCounts{}
		}
		c.traits[i].add(value, most)
	}
}

// add counts a refused request, and attributes it to the key that caused the refusal.
func (d *refusals) add(at note, key keyRef) {
	if at == "" {
		return
	}
	own := d.byKey[key]
	if own == nil {
		d.evict()
		own = &profileCounts{}
		d.byKey[key] = own
	}
	traits := at.traits()
	d.all.add(&traits, maxValues)
	own.add(&traits, maxKeyValues)
}

// evict drops the less refused half of the keys if there are too many.
func (d *refusals) evict() {
	if d.byKey == nil {
		d.byKey = map[keyRef]*profileCounts{}
	}
	if len(d.byKey) < maxProfiles {
		return
	}
	var counts []int64
	for _, own := range d.byKey {
		counts = append(counts, own.counted)
	}
	slices.Sort(counts)
	least, excess := counts[len(counts)/2], len(d.byKey)/2
	for key, own := range d.byKey {
		if own.counted < least || own.counted == least && excess > 0 {
			delete(d.byKey, key)
			excess--
		}
	}
}

// key returns the profile of the refused requests of a key, or nil if it is unknown.
func (d *refusals) key(at keyRef) *Profile { return d.byKey[at].profile(topKeyValues) }

// profile returns the most frequent values of each trait, or nil if the log has no traits.
func (c *profileCounts) profile(top int) *Profile {
	if c == nil || c.counted == 0 {
		return nil
	}
	var lists [traitCount][]Value
	for i := range lists {
		lists[i] = c.traits[i].top(top)
	}
	for i, list := range lists {
		if len(list) == 1 && list[0].Value == "" {
			lists[i] = nil // the log does not have this trait
		}
	}
	return &Profile{
		Requests: c.counted, Methods: lists[traitMethod], Paths: lists[traitPath], Agents: lists[traitAgent], Statuses: lists[traitStatus],
	}
}

// valueCounts counts values.
type valueCounts map[string]*int64

func (c valueCounts) add(value string, most int) {
	if n := c[value]; n != nil {
		*n++
		return
	}
	if len(c) >= most {
		for _, rare := range c.top(len(c))[most/2:] {
			delete(c, rare.Value)
		}
	}
	n := int64(1)
	c[value] = &n
}

// top returns the n most frequent values.
func (c valueCounts) top(n int) []Value {
	list := make([]Value, 0, len(c))
	for value, count := range c {
		list = append(list, Value{value, *count})
	}
	slices.SortFunc(list, func(a, b Value) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Value, b.Value))
	})
	return list[:min(n, len(list))]
}
