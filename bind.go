package slidegate

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// BoundLimit is a limit as stores see it: checked, in integers, with the part of the address that does not depend on the
// key. It does not change once made and is safe for concurrent use. The zero value is not usable; Bind makes it.
type BoundLimit struct {
	rule      rule.Limit
	limit     Limit
	namespace string
	label     string
	prefix    string
	id        uint64
}

var lastBound atomic.Uint64

// Bind checks a limit and gives it its place in a namespace.
func Bind(namespace string, limit Limit) (*BoundLimit, error) {
	r, err := limit.compile()
	if err != nil {
		return nil, err
	}
	b := &BoundLimit{rule: r, limit: limit, namespace: namespace, label: limit.Name, id: lastBound.Add(1)}
	if b.label == "" {
		b.label = limit.String()
	}
	prefix := appendField(nil, namespace)
	prefix = appendField(prefix, limit.Name)
	b.prefix = string(appendField(prefix, r.Shape().String()))
	return b, nil
}

// appendField writes a field so that no two lists of fields are written alike.
func appendField(to []byte, field string) []byte {
	to = binary.AppendUvarint(to, uint64(len(field)))
	return append(to, field...)
}

// Rule returns the limit in integers.
func (b *BoundLimit) Rule() *rule.Limit { return &b.rule }

// Limit returns the limit that was bound.
func (b *BoundLimit) Limit() Limit { return b.limit }

// Namespace returns the namespace that the limit was bound to.
func (b *BoundLimit) Namespace() string { return b.namespace }

// Label returns the limit's name, or its text if it has none: what headers, metrics and decisions call it.
func (b *BoundLimit) Label() string { return b.label }

// Prefix returns the part of an address that does not depend on group and key: namespace, name and shape. Different
// ones have different prefixes, and none begins with another.
func (b *BoundLimit) Prefix() string { return b.prefix }

// ID returns a number that no other BoundLimit of this process has, for stores that keep something worked out per limit.
func (b *BoundLimit) ID() uint64 { return b.id }
