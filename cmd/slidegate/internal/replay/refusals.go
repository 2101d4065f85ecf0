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
	notes   *notes
	all     [traitCount]valueCounts
	counted int64
	byKey   map[keyRef]*keyProfile
}

// keyProfile counts the traits of the refused requests of one key.
type keyProfile struct {
	counted int64
	traits  [traitCount]fewCounts
}

func newRefusals(n *notes) *refusals {
	d := &refusals{notes: n, byKey: map[keyRef]*keyProfile{}}
	for i := range d.all {
		d.all[i] = valueCounts{}
	}
	return d
}

// add counts a refused request, and attributes it to the key that caused the refusal.
func (d *refusals) add(at note, key keyRef) {
	if at == 0 {
		return
	}
	d.counted++
	own := d.byKey[key]
	if own == nil {
		d.evict()
		own = &keyProfile{}
		d.byKey[key] = own
	}
	own.counted++
	for i, value := range d.notes.read(at) {
		d.all[i].add(value)
		own.traits[i].add(value)
	}
}

// evict drops the less refused half of the keys if there are too many.
func (d *refusals) evict() {
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

// findings returns the profile of all refused requests, or nil if the log has no traits.
func (d *refusals) findings() *Profile {
	var lists [traitCount][]Value
	for i := range d.all {
		lists[i] = d.all[i].top(topValues)
	}
	return profile(d.counted, lists)
}

// key returns the profile of the refused requests of a key, or nil if it is unknown.
func (d *refusals) key(at keyRef) *Profile {
	own := d.byKey[at]
	if own == nil {
		return nil
	}
	var lists [traitCount][]Value
	for i := range own.traits {
		lists[i] = own.traits[i].top(topKeyValues)
	}
	return profile(own.counted, lists)
}

func profile(counted int64, lists [traitCount][]Value) *Profile {
	if counted == 0 {
		return nil
	}
	for i, list := range lists {
		if len(list) == 1 && list[0].Value == "" {
			lists[i] = nil // the log does not have this trait
		}
	}
	return &Profile{
		Requests: counted, Methods: lists[traitMethod], Paths: lists[traitPath], Agents: lists[traitAgent], Statuses: lists[traitStatus],
	}
}

// valueCounts counts many values.
type valueCounts map[string]*int64

func (c valueCounts) add(value []byte) {
	if n := c[string(value)]; n != nil {
		*n++
		return
	}
	if len(c) >= maxValues {
		for _, rare := range c.top(len(c))[maxValues/2:] {
			delete(c, rare.Value)
		}
	}
	n := int64(1)
	c[string(value)] = &n
}

func (c valueCounts) top(n int) []Value {
	list := make([]Value, 0, len(c))
	for value, count := range c {
		list = append(list, Value{value, *count})
	}
	return mostFrequent(list, n)
}

// fewCounts counts a few values.
type fewCounts struct{ list []Value }

func (c *fewCounts) add(value []byte) {
	for i := range c.list {
		if c.list[i].Value == string(value) {
			c.list[i].Requests++
			return
		}
	}
	if len(c.list) >= maxKeyValues {
		c.list = mostFrequent(c.list, maxKeyValues/2)
	}
	c.list = append(c.list, Value{string(value), 1})
}

func (c *fewCounts) top(n int) []Value { return mostFrequent(slices.Clone(c.list), n) }

// mostFrequent sorts values by their counts and returns the first n.
func mostFrequent(list []Value, n int) []Value {
	slices.SortFunc(list, func(a, b Value) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Value, b.Value))
	})
	return list[:min(n, len(list))]
}
