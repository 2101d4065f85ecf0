package replay

import (
	"cmp"
	"slices"
)

// What is counted of denied requests is bounded, whatever they are: of more different values than these, the rarer half is
// forgotten, and counted from nothing if it comes again.
const (
	maxValues     = 1 << 14 // of a trait
	maxKeyValues  = 16      // of a trait of one key
	maxProfiles   = 1 << 12 // keys
	valuesNamed   = 5
	keyValuesTold = 3
)

// denials finds out what the requests were that were denied, and those of single keys.
type denials struct {
	notes  *notes
	all    [traitCount]valueCounts
	told   int64
	ofKeys map[place]*keyProfile
}

// keyProfile is what the denied requests of one key were.
type keyProfile struct {
	told   int64
	traits [traitCount]fewCounts
}

func newDenials(n *notes) *denials {
	d := &denials{notes: n, ofKeys: map[place]*keyProfile{}}
	for i := range d.all {
		d.all[i] = valueCounts{}
	}
	return d
}

// add counts a denied request for the key that it was denied for.
func (d *denials) add(at note, key place) {
	if at == 0 {
		return
	}
	d.told++
	own := d.ofKeys[key]
	if own == nil {
		d.makeRoom()
		own = &keyProfile{}
		d.ofKeys[key] = own
	}
	own.told++
	for i, value := range d.notes.read(at) {
		d.all[i].add(value)
		own.traits[i].add(value)
	}
}

// makeRoom forgets the keys that were denied less than half of those that are followed, if there are too many.
func (d *denials) makeRoom() {
	if len(d.ofKeys) < maxProfiles {
		return
	}
	var counts []int64
	for _, own := range d.ofKeys {
		counts = append(counts, own.told)
	}
	slices.Sort(counts)
	least, room := counts[len(counts)/2], len(d.ofKeys)/2
	for key, own := range d.ofKeys {
		if own.told < least || own.told == least && room > 0 {
			delete(d.ofKeys, key)
			room--
		}
	}
}

// findings returns what all denied requests were, or nil if the log does not tell.
func (d *denials) findings() *Profile {
	var lists [traitCount][]Value
	for i := range d.all {
		lists[i] = d.all[i].top(valuesNamed)
	}
	return profile(d.told, lists)
}

// key returns what the denied requests of a key were, or nil if it is not known.
func (d *denials) key(at place) *Profile {
	own := d.ofKeys[at]
	if own == nil {
		return nil
	}
	var lists [traitCount][]Value
	for i := range own.traits {
		lists[i] = own.traits[i].top(keyValuesTold)
	}
	return profile(own.told, lists)
}

func profile(told int64, lists [traitCount][]Value) *Profile {
	if told == 0 {
		return nil
	}
	for i, list := range lists {
		if len(list) == 1 && list[0].Value == "" {
			lists[i] = nil // the log has no such thing
		}
	}
	return &Profile{
		Requests: told, Methods: lists[traitMethod], Paths: lists[traitPath], Agents: lists[traitAgent], Statuses: lists[traitStatus],
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
	return most(list, n)
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
		c.list = most(c.list, maxKeyValues/2)
	}
	c.list = append(c.list, Value{string(value), 1})
}

func (c *fewCounts) top(n int) []Value { return most(slices.Clone(c.list), n) }

// most sorts values by their counts and returns the first n.
func most(list []Value, n int) []Value {
	slices.SortFunc(list, func(a, b Value) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Value, b.Value))
	})
	return list[:min(n, len(list))]
}
