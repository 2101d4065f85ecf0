package keyform

import (
	"net/netip"
	"slices"
	"strings"
)

// Table finds what was said about a key: about the key itself, about the prefix of its address, or about a pattern. The
// zero value is empty.
type Table[T any] struct {
	exact    map[string]T
	prefixes []*prefixTable[T] // one per text before the addresses
	patterns []patternEntry[T]
}

type patternEntry[T any] struct {
	pattern string
	value   T
}

// prefixTable holds what was said about the addresses in keys that begin with a mark.
type prefixTable[T any] struct {
	mark string
	Prefixes[T]
}

// Prefixes holds values by prefix. The number of lookups is bounded by the number of lengths in use, in practice a handful,
// whatever the number of prefixes. The zero value is empty.
type Prefixes[T any] struct {
	values   map[netip.Prefix]T
	lengths4 []int // longest first
	lengths6 []int
}

// Add adds a value for a match. Of two values for one match, the first is kept.
func (t *Table[T]) Add(m Match, value T) {
	switch {
	case m.Prefix.IsValid():
		t.prefixesWith(m.Key).Add(m.Prefix, value)
	case m.Pattern:
		t.patterns = append(t.patterns, patternEntry[T]{m.Key, value})
	default:
		if t.exact == nil {
			t.exact = map[string]T{}
		}
		if _, known := t.exact[m.Key]; !known {
			t.exact[m.Key] = value
		}
	}
}

// prefixesWith returns the table of prefixes after a mark.
func (t *Table[T]) prefixesWith(mark string) *prefixTable[T] {
	for _, p := range t.prefixes {
		if p.mark == mark {
			return p
		}
	}
	p := &prefixTable[T]{mark: mark}
	t.prefixes = append(t.prefixes, p)
	return p
}

// Add adds a value for a prefix. Of two values for one prefix, the first is kept.
func (p *Prefixes[T]) Add(prefix netip.Prefix, value T) {
	if p.values == nil {
		p.values = map[netip.Prefix]T{}
	}
	if _, known := p.values[prefix]; known {
		return
	}
	p.values[prefix] = value
	lengths := &p.lengths6
	if prefix.Addr().Is4() {
		lengths = &p.lengths4
	}
	if !slices.Contains(*lengths, prefix.Bits()) {
		*lengths = append(*lengths, prefix.Bits())
		slices.SortFunc(*lengths, func(a, b int) int { return b - a })
	}
}

// IsEmpty reports whether nothing was added.
func (t *Table[T]) IsEmpty() bool { return t.exact == nil && t.prefixes == nil && t.patterns == nil }

// Find returns the value for the key itself, or otherwise for the longest prefix, or otherwise for the first pattern.
func (t *Table[T]) Find(key string) (value T, found bool) {
	t.Each(key, func(one T, _ int) bool {
		value, found = one, true
		return false
	})
	return value, found
}

// KeyLength is the length of a match with the key itself: longer than that of every prefix.
const KeyLength = 129

// patternLength is the length of a match with a pattern.
const patternLength = -1

// length returns how much of a key the match determines: more of a match that takes precedence.
func (m *Match) length() int {
	switch {
	case m.Prefix.IsValid():
		return m.Prefix.Bits()
	case m.Pattern:
		return patternLength
	}
	return KeyLength
}

// Outranks reports whether m takes precedence over another match about some key: because it determines more of the key or, if
// both determine as much, because precedes is set.
func (m *Match) Outranks(other *Match, precedes bool) bool {
	switch mine, theirs := m.length(), other.length(); {
	case mine < theirs, mine == theirs && !precedes:
		return false
	case m.Prefix.IsValid():
		return m.Key == other.Key && within(m.Prefix, other.Prefix)
	}
	return other.Matches(m.Key)
}

// Each calls yield with the values that match a key and the lengths of their matches, in the order of Find, until it
// returns false.
func (t *Table[T]) Each(key string, yield func(value T, length int) bool) {
	if value, ok := t.exact[key]; ok && !yield(value, KeyLength) {
		return
	}
	for _, p := range t.prefixes {
		if !p.each(key, yield) {
			return
		}
	}
	for i := range t.patterns {
		if Fits(t.patterns[i].pattern, key) && !yield(t.patterns[i].value, patternLength) {
			return
		}
	}
}

// each calls yield with the values of prefixes that contain the address in a key, and reports whether to go on.
func (p *prefixTable[T]) each(key string, yield func(value T, length int) bool) bool {
	rest, marked := strings.CutPrefix(key, p.mark)
	if !marked {
		return true
	}
	group, ok := groupIn(rest)
	if !ok {
		return true
	}
	return p.Each(group, yield)
}

// Each calls yield with the values of prefixes that contain a group of addresses, longest first, and reports whether to go on.
func (p *Prefixes[T]) Each(group netip.Prefix, yield func(value T, length int) bool) bool {
	lengths := p.lengths6
	if group.Addr().Is4() {
		lengths = p.lengths4
	}
	for _, bits := range lengths {
		if bits > group.Bits() {
			continue
		}
		prefix, _ := group.Addr().Prefix(bits) // the length is one of the address's family
		if value, found := p.values[prefix]; found && !yield(value, bits) {
			return false
		}
	}
	return true
}
