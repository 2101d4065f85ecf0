package config

import (
	"net/netip"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/policy"
)

// placedOverride is an override and its position. What its key means depends on other parts of the file.
type placedOverride struct {
	policy.Override
	at       yamlfile.Position
	template *fields.Template // nil until the policy has been read
}

// checkReached reports overrides that are never reached, since earlier ones of the policy match the same keys, however they are
// written.
func (r *reader) checkReached(groups clientip.Grouping) {
	var seen matches
	var form keyform.Form
	for i, o := range r.placed {
		if o.template == nil || o.template.IsZero() {
			continue // reported elsewhere
		}
		if i == 0 || o.template != r.placed[i-1].template {
			form, seen = o.template.Form(groups), matches{}
		}
		read, err := keyform.Read(form, o.Key, o.Pattern)
		if err != nil {
			continue // reported by checkNamed
		}
		line, covered := seen.cover(read.Keys, &r.compared)
		if r.compared > maxCompared {
			r.Problems.Addf(o.at, "too many overrides to compare with one another; use fewer patterns")
			return
		}
		if covered {
			r.Problems.Addf(o.at, "this override is never reached, since the one on line %d matches the same keys, written differently; "+
				"put it before that one, or leave it out", line)
			continue
		}
		seen.add(read.Keys, o.at.Line)
	}
}

// matches are the keys that overrides match, and the lines of these.
type matches struct {
	keys     map[string]int
	patterns []policy.Override
	lines    []int                           // of the patterns
	prefixes map[string]map[netip.Prefix]int // by what precedes the address in a key
}

func (m *matches) add(all []keyform.Match, line int) {
	if m.keys == nil {
		m.keys, m.prefixes = map[string]int{}, map[string]map[netip.Prefix]int{}
	}
	for _, one := range all {
		switch {
		case one.Pattern:
			m.patterns, m.lines = append(m.patterns, policy.Override{Key: one.Key, Pattern: true}), append(m.lines, line)
		case !one.Prefix.IsValid():
			addLine(m.keys, one.Key, line)
		default:
			if m.prefixes[one.Key] == nil {
				m.prefixes[one.Key] = map[netip.Prefix]int{}
			}
			addLine(m.prefixes[one.Key], one.Prefix, line)
		}
	}
}

// addLine keeps the line of the first override.
func addLine[K comparable](lines map[K]int, key K, line int) {
	if _, twice := lines[key]; !twice {
		lines[key] = line
	}
}

// cover reports whether all of these are matched, and the last line that is needed for it.
func (m *matches) cover(all []keyform.Match, compared *int) (last int, ok bool) {
	for _, one := range all {
		line, found := m.coverOne(one, compared)
		if !found {
			return 0, false
		}
		last = max(last, line)
	}
	return last, true
}

func (m *matches) coverOne(one keyform.Match, compared *int) (line int, ok bool) {
	text, single := one.Key, !one.Pattern && !one.Prefix.IsValid()
	if one.Prefix.IsValid() {
		text += "*" // a pattern that matches what is before the address, and everything after it
	}
	if line, ok = m.keys[text]; ok && single {
		return line, true
	}
	for i, earlier := range m.patterns {
		if *compared += len(earlier.Key) + len(text); *compared > maxCompared {
			return 0, false
		}
		if keyform.Fits(earlier.Key, text) { // see reach.before
			return m.lines[i], true
		}
	}
	for mark, lines := range m.prefixes {
		group := one.Prefix
		if address, marked := strings.CutPrefix(one.Key, mark); single && marked {
			group, _ = parseAddresses(address)
		} else if mark != one.Key {
			continue
		}
		for bits := group.Bits(); bits >= 0; bits-- {
			if line, ok = lines[netip.PrefixFrom(group.Addr(), bits).Masked()]; ok {
				return line, true
			}
		}
	}
	return 0, false
}
