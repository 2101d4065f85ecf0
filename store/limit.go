package store

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/rule"
)

// Limit is a limit as stores see it: validated, in integers, with the part of the address that does not depend on the key.
// It is immutable and safe for concurrent use. The zero value is not usable; Limiters make one from a
// slidegate.Limit, and Bind from a rule.Limit.
type Limit struct {
	rule      rule.Limit
	namespace string
	name      string
	label     string
	prefix    string
	hash      uint64 // of the prefix
	id        uint64
	mode      Mode
	base      *Limit                       // the limit without a mode; nil if it is this one
	in        [Modes]atomic.Pointer[Limit] // the same limit in other modes, if this one has none
}

var (
	lastID atomic.Uint64
	seed   = maphash.MakeSeed()
)

// Bind binds a limit, as rule.Limit.Normalize returns it, to a namespace. The label is the limit's name in headers, metrics
// and decisions.
func Bind(namespace, name, label string, r rule.Limit) *Limit {
	prefix := appendField(nil, namespace)
	prefix = appendField(prefix, name)
	prefix = appendField(prefix, shape.Name(&r))
	hash := bits.RotateLeft64(maphash.Bytes(seed, prefix), 21)
	return &Limit{rule: r, namespace: namespace, name: name, label: label, prefix: string(prefix), hash: hash, id: lastID.Add(1)}
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

// Hash returns a hash of an address: of the limit's prefix, a group and a key. It is the same for all limits with that
// prefix, and differs between processes, so that nobody can choose keys with the same hash.
func (l *Limit) Hash(group, key string) uint64 {
	h := l.hash ^ maphash.String(seed, key)
	if group != "" {
		h ^= bits.RotateLeft64(maphash.String(seed, group), 42)
	}
	return h
}

// ID returns a number that no other Limit in this process has, for stores that cache something per limit.
func (l *Limit) ID() uint64 { return l.id }

// Mode returns the failure mode of the limit; 0 means the default of the layer that handles failures.
func (l *Limit) Mode() Mode { return l.mode }

// In returns the same limit in a failure mode: equal in everything but Mode and ID, and with the same address. It returns
// the same pointer each time.
func (l *Limit) In(mode Mode) *Limit {
	if l.mode == mode {
		return l
	}
	if l.base != nil {
		return l.base.In(mode)
	}
	if known := l.in[mode].Load(); known != nil {
		return known
	}
	made := &Limit{
		rule: l.rule, namespace: l.namespace, name: l.name, label: l.label, prefix: l.prefix, hash: l.hash, id: lastID.Add(1), mode: mode, base: l,
	}
	if !l.in[mode].CompareAndSwap(nil, made) {
		return l.in[mode].Load()
	}
	return made
}
