package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// keyTable finds what was said about a key: about the key itself, about the prefix of its address, or about a pattern. The
// zero value is empty.
type keyTable[T any] struct {
	exact    map[string]T
	prefixes []*prefixTable[T] // one per text before the addresses
	patterns []patternEntry[T]
}

type patternEntry[T any] struct {
	pattern string
	value   T
}

// prefixTable holds values by prefix. The number of lookups is bounded by the number of lengths in use, whatever the number
// of prefixes.
type prefixTable[T any] struct {
	mark     string
	values   map[netip.Prefix]T
	lengths4 []int // longest first
	lengths6 []int
}

// add adds a value for all matches. Of two values for one match, the first is kept.
func (t *keyTable[T]) add(matches []KeyMatch, value T) {
	for _, m := range matches {
		switch {
		case m.Prefix.IsValid():
			t.prefixesWith(m.Key).add(m.Prefix, value)
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
}

// prefixesWith returns the table of prefixes after a mark.
func (t *keyTable[T]) prefixesWith(mark string) *prefixTable[T] {
	for _, p := range t.prefixes {
		if p.mark == mark {
			return p
		}
	}
	p := &prefixTable[T]{mark: mark, values: map[netip.Prefix]T{}}
	t.prefixes = append(t.prefixes, p)
	return p
}

func (p *prefixTable[T]) add(prefix netip.Prefix, value T) {
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

// isEmpty reports whether nothing was added.
func (t *keyTable[T]) isEmpty() bool { return t.exact == nil && t.prefixes == nil && t.patterns == nil }

// find returns the value for the key itself, or otherwise for the longest prefix, or otherwise for the first pattern.
func (t *keyTable[T]) find(key string) (value T, found bool) {
	t.each(key, func(one T, _ int) bool {
		value, found = one, true
		return false
	})
	return value, found
}

// The lengths of matches that are not prefixes.
const (
	keyLength     = 129 // of the key itself: longer than every prefix
	patternLength = -1
)

// length returns how much of a key the match determines: more of a match that takes precedence.
func (m *KeyMatch) length() int {
	switch {
	case m.Prefix.IsValid():
		return m.Prefix.Bits()
	case m.Pattern:
		return patternLength
	}
	return keyLength
}

// each calls yield with the values that match a key and the lengths of their matches, in the order of find, until it
// returns false.
func (t *keyTable[T]) each(key string, yield func(value T, length int) bool) {
	if value, ok := t.exact[key]; ok && !yield(value, keyLength) {
		return
	}
	for _, p := range t.prefixes {
		if !p.each(key, yield) {
			return
		}
	}
	for i := range t.patterns {
		if matchKey(t.patterns[i].pattern, key) && !yield(t.patterns[i].value, patternLength) {
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
