package config

import (
	"net/netip"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// namedKey is a key in a file. What it means depends on other parts of the file, so it is checked at the end.
type namedKey struct {
	at       yamlfile.Position
	field    string
	key      string
	override yamlfile.Position // of the override that has it; zero if there is none, or if it is invalid
	template *fields.Template  // nil until the policy has been read
}

// maxCompared is how many bytes of patterns and keys of a file are compared with one another, which takes about a second. A
// thousand patterns and ten thousand keys of the usual length take half of it.
const maxCompared = 1 << 30

// checkKeys reports keys that no request can have, and overrides that are never reached, since an earlier one of the policy matches
// the same keys. It does not show keys, since they may identify a person.
func (r *reader) checkKeys(groups clientip.Grouping) {
	var template *fields.Template
	var form keyform.Form
	var seen matches
	for i, named := range r.namedKeys {
		if named.template == nil || named.template.IsZero() || named.key == "" {
			continue // reported elsewhere
		}
		if named.template != template {
			template, form, seen = named.template, named.template.Form(groups), matches{}
		}
		read, err := keyform.Read(form, named.key, true)
		if err != nil {
			r.Problems.Addf(named.at, "%s: the key %w", named.field, err)
			continue
		}
		if named.override.Line == 0 {
			continue
		}
		first, covered := seen.cover(read, &r.compared)
		if r.compared > maxCompared {
			r.Problems.Addf(named.override, "too many overrides to compare with one another; use fewer patterns")
			return
		}
		if covered {
			r.Problems.Addf(named.override, "this override is never reached, since the one on line %d matches all of its keys; "+
				"put it before that one, or leave it out", r.namedKeys[first].override.Line)
			continue
		}
		seen.add(read, i)
	}
}

// matches are the keys that overrides or plans match, each with a number: a later one has a larger number. The zero value is empty.
type matches struct {
	keys     map[string]int
	patterns []string
	numbers  []int                           // of the patterns
	prefixes map[string]map[netip.Prefix]int // by what precedes the address in a key
}

func (m *matches) add(one keyform.Match, number int) {
	if m.keys == nil {
		m.keys, m.prefixes = map[string]int{}, map[string]map[netip.Prefix]int{}
	}
	switch {
	case one.Pattern:
		m.patterns, m.numbers = append(m.patterns, one.Key), append(m.numbers, number)
	case !one.Prefix.IsValid():
		addFirst(m.keys, one.Key, number)
	default:
		if m.prefixes[one.Key] == nil {
			m.prefixes[one.Key] = map[netip.Prefix]int{}
		}
		addFirst(m.prefixes[one.Key], one.Prefix, number)
	}
}

// addFirst keeps the number of the first override.
func addFirst[K comparable](numbers map[K]int, key K, number int) {
	if _, twice := numbers[key]; !twice {
		numbers[key] = number
	}
}

// cover reports whether all keys of a match are matched, and by which number. It adds to the bytes that were compared, and stops at
// maxCompared. A pattern matches everything that another pattern matches if it matches that pattern's text: it then matches each * in the
// text with a * of its own, which also matches whatever that * stands for.
func (m *matches) cover(one keyform.Match, compared *int) (number int, ok bool) {
	text, single := one.Key, !one.Pattern && !one.Prefix.IsValid()
	if one.Prefix.IsValid() {
		text += "*" // a pattern that matches what is before the address, and everything after it
	}
	if number, ok = m.keys[text]; ok && single {
		return number, true
	}
	for i, earlier := range m.patterns {
		if *compared += len(earlier) + len(text); *compared > maxCompared {
			return 0, false
		}
		if keyform.Fits(earlier, text) {
			return m.numbers[i], true
		}
	}
	for mark, numbers := range m.prefixes {
		group := one.Prefix
		if address, marked := strings.CutPrefix(one.Key, mark); single && marked {
			group, _ = parseAddresses(address)
		} else if mark != one.Key {
			continue
		}
		for bits := group.Bits(); bits >= 0; bits-- {
			if number, ok = numbers[netip.PrefixFrom(group.Addr(), bits).Masked()]; ok {
				return number, true
			}
		}
	}
	return 0, false
}
