package envoy

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/internal/yamlfile"
)

// location is a position in a file.
type location struct {
	file              string
	yamlfile.Position // zero if unknown
}

// String returns the location in the form that editors read.
func (p location) String() string {
	if p.Position == (yamlfile.Position{}) {
		return p.file
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.Line, p.Column)
}

// problem returns an error about the location.
func (p location) problem(format string, args ...any) error {
	return &yamlfile.Error{File: p.file, At: p.Position, Err: fmt.Errorf(format, args...)}
}

// Merge merges domains of the same name. Values with a * are tried in the given order. Descriptors of the same key
// and value become one. If both have a rate_limit, the error names both locations; a domain that is charged in two
// ways is also an error.
func Merge(domains []*Domain) ([]*Domain, error) {
	var merged []*Domain
	var all []error
	for _, d := range domains {
		i := slices.IndexFunc(merged, func(m *Domain) bool { return m.name == d.name })
		if i < 0 {
			merged = append(merged, d)
			continue
		}
		first := merged[i]
		if first.charging != d.charging {
			all = append(all, d.at.problem("charging: the domain %q is charged %s here and %s in %s; write the same charging in all of its files",
				d.name, d.charging, first.charging, first.at))
			continue
		}
		m := &merger{where: maps.Clone(first.where)}
		maps.Copy(m.where, d.where)
		merged[i] = &Domain{name: d.name, at: first.at, charging: d.charging, root: m.level(d.name, first.root, d.root), where: m.where}
		all = append(all, m.conflicts...)
	}
	return merged, errors.Join(all...)
}

// merger merges two domains, and modifies neither.
type merger struct {
	where     map[*node]location // of the descriptors of both, and of merged ones
	conflicts []error
}

func (m *merger) level(path string, a, b *level) *level {
	if a == nil || b == nil {
		if a == nil {
			a = b
		}
		return a
	}
	merged := newLevel()
	for n := range a.all() {
		if same := b.lookup(n.pair); same != nil {
			n = m.node(path+"."+n.pair.String(), n, same)
		}
		merged.add(n)
	}
	for n := range b.all() {
		if a.lookup(n.pair) == nil {
			merged.add(n)
		}
	}
	return merged
}

func (m *merger) node(path string, a, b *node) *node {
	switch {
	case a.rule != nil && b.rule != nil:
		m.conflicts = append(m.conflicts, m.where[b].problem("the descriptor %s has a rate_limit here and in %s; keep one", path, m.where[a]))
	case a.shared != b.shared:
		m.conflicts = append(m.conflicts, m.where[b].problem("the descriptor %s has share_threshold here or in %s, and not in both; write the same in both", path, m.where[a]))
	}
	merged := *a
	m.where[&merged] = m.where[a]
	if merged.rule == nil {
		m.where[&merged], merged.rule = m.where[b], b.rule
	}
	merged.next = m.level(path, a.next, b.next)
	return &merged
}

// lookup returns the descriptor with exactly this key and value, or nil.
func (l *level) lookup(p pair) *node {
	if !strings.Contains(p.value, "*") {
		return l.exact[p]
	}
	if i := slices.IndexFunc(l.wild[p.key], func(n *node) bool { return n.pair == p }); i >= 0 {
		return l.wild[p.key][i]
	}
	return nil
}

// Equal reports whether two lists of domains have the same content, wherever they were read.
func Equal(a, b []*Domain) bool {
	return slices.EqualFunc(a, b, func(a, b *Domain) bool {
		return a.name == b.name && a.charging == b.charging && reflect.DeepEqual(a.root, b.root)
	})
}
