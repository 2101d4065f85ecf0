package store

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// Limit is a limit as stores see it: validated, in integers, with the part of the address that does not depend on the key.
// It is immutable and safe for concurrent use. The zero value is not usable; slidegate.Bind makes one from a
// slidegate.Limit, and Bind from a rule.Limit.
type Limit struct {
	rule      rule.Limit
	namespace string
	name      string
	label     string
	prefix    string
	id        uint64
}

var lastID atomic.Uint64

// Bind binds a limit, as rule.Limit.Normalize returns it, to a namespace. The label is the limit's name in headers, metrics
// and decisions.
func Bind(namespace, name, label string, r rule.Limit) *Limit {
	prefix := appendField(nil, namespace)
	prefix = appendField(prefix, name)
	prefix = appendField(prefix, r.Shape().String())
	return &Limit{rule: r, namespace: namespace, name: name, label: label, prefix: string(prefix), id: lastID.Add(1)}
}

// appendField appends a field in a form that keeps different lists of fields distinct.
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

// Label returns the limit's name, or its text if it has none, as it appears in headers, metrics and decisions.
func (l *Limit) Label() string { return l.label }

// Prefix returns the part of an address that does not depend on group and key: namespace, name and shape. Different limits
// have different prefixes, and no prefix begins with another.
func (l *Limit) Prefix() string { return l.prefix }

// ID returns a number that no other Limit in this process has, for stores that cache something per limit.
func (l *Limit) ID() uint64 { return l.id }
