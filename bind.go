package slidegate

import (
	"encoding/binary"
	"maps"
	"sync"
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

// boundLimits remembers what Bind made of limits, so that limits given per call cost a map look-up.
type boundLimits struct {
	namespace string
	store     Store

	known atomic.Pointer[map[Limit]*BoundLimit] // read without a lock, so never written to

	mu     sync.Mutex
	all    map[Limit]*BoundLimit // what is known, and what came since
	misses int                   // how often something was looked for in all that is not known
}

// maxBound is how many limits are remembered; further ones still work and are bound anew at each call.
const maxBound = 4096

func (b *boundLimits) bind(limit Limit) (*BoundLimit, error) {
	if known := b.known.Load(); known != nil {
		if bound, ok := (*known)[limit]; ok {
			return bound, nil
		}
	}
	if bound, ok := b.recall(limit); ok {
		return bound, nil
	}
	bound, err := Bind(b.namespace, limit)
	if err != nil {
		return nil, err
	}
	if err := b.store.Check(bound); err != nil {
		return nil, err
	}
	return b.remember(limit, bound), nil
}

// recall finds a limit that is not known yet. All become known when as many were recalled as there are to be copied: a
// copy for each new limit would cost more, the more there are.
func (b *boundLimits) recall(limit Limit) (bound *BoundLimit, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound, ok = b.all[limit]
	if !ok {
		return nil, false
	}
	if b.misses++; b.misses >= len(b.all) {
		known := maps.Clone(b.all)
		b.known.Store(&known)
		b.misses = 0
	}
	return bound, true
}

func (b *boundLimits) remember(limit Limit, bound *BoundLimit) *BoundLimit {
	b.mu.Lock()
	defer b.mu.Unlock()
	if earlier, ok := b.all[limit]; ok {
		return earlier
	}
	if b.all == nil {
		b.all = map[Limit]*BoundLimit{}
	}
	if len(b.all) < maxBound {
		b.all[limit] = bound
	}
	return bound
}
