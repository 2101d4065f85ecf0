package store

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// Limit is a limit as stores see it: checked, in integers, with the part of the address that does not depend on the
// key. It does not change once made and is safe for concurrent use. The zero value is not usable; slidegate.Bind makes
// one of a limit as users write it, and Bind one of a rule.
type Limit struct {
	rule      rule.Limit
	namespace string
	name      string
	label     string
	prefix    string
	id        uint64
}

var lastID atomic.Uint64

// Bind gives a rule, as rule.Limit.Normal returns it, its place in a namespace. The label is what headers, metrics and
// decisions call the limit.
func Bind(namespace, name, label string, r rule.Limit) *Limit {
	prefix := appendField(nil, namespace)
	prefix = appendField(prefix, name)
	prefix = appendField(prefix, r.Shape().String())
	return &Limit{rule: r, namespace: namespace, name: name, label: label, prefix: string(prefix), id: lastID.Add(1)}
}

// appendField writes a field so that no two lists of fields are written alike.
func appendField(to []byte, field string) []byte {
	to = binary.AppendUvarint(to, uint64(len(field)))
	return append(to, field...)
}

// Rule returns the limit in integers.
func (l *Limit) Rule() *rule.Limit { return &l.rule }

// Namespace returns the namespace that the limit was bound to.
func (l *Limit) Namespace() string { return l.namespace }

// Name returns the limit's name, which may be empty.
func (l *Limit) Name() string { return l.name }

// Label returns the limit's name, or its text if it has none: what headers, metrics and decisions call it.
func (l *Limit) Label() string { return l.label }

// Prefix returns the part of an address that does not depend on group and key: namespace, name and shape. Different
// ones have different prefixes, and none begins with another.
func (l *Limit) Prefix() string { return l.prefix }

// ID returns a number that no other Limit of this process has, for stores that keep something worked out per limit.
func (l *Limit) ID() uint64 { return l.id }
