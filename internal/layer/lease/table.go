package lease

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/store"
)

// table finds the holding of an address without a lock. Its size is fixed: an address whose bucket is full has no
// holding.
type table struct {
	buckets []bucket
	mu      sync.Mutex // guards writes
	held    []*holding // all holdings, unordered, so that they can be listed without scanning the buckets
}

// ways is the number of holdings per bucket.
const ways = 8

type bucket [ways]atomic.Pointer[holding]

func newTable(keys int) table {
	n := 1 << bits.Len(uint((keys+ways-1)/ways-1))
	return table{buckets: make([]bucket, n)}
}

// find returns the holding of an address, or nil.
func (t *table) find(h uint64, limit *store.Limit, group, key string) *holding {
	b := &t.buckets[h&uint64(len(t.buckets)-1)]
	for i := range b {
		if e := b[i].Load(); e != nil && e.matches(h, limit, group, key) {
			return e
		}
	}
	return nil
}

// add returns the holding of an address, creating it if there is none, or nil if there is no space for it.
func (t *table) add(h uint64, limit *store.Limit, group, key string, maxKeys int) (e *holding, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e = t.find(h, limit, group, key); e != nil {
		return e, false
	}
	if len(t.held) >= maxKeys {
		return nil, false
	}
	b := &t.buckets[h&uint64(len(t.buckets)-1)]
	for i := range b {
		if b[i].Load() == nil {
			e = &holding{hash: h, prefix: limit.Prefix(), group: group, key: key, limit: limit, index: len(t.held)}
			b[i].Store(e)
			t.held = append(t.held, e)
			return e, len(t.held) == 1
		}
	}
	return nil, false
}

// remove removes a holding, and reports whether any is left. The caller holds t.mu.
func (t *table) remove(e *holding) (left bool) {
	b := &t.buckets[e.hash&uint64(len(t.buckets)-1)]
	for i := range b {
		if b[i].Load() == e {
			b[i].Store(nil)
		}
	}
	last := len(t.held) - 1
	t.held[e.index] = t.held[last]
	t.held[e.index].index = e.index
	t.held[last] = nil
	t.held = t.held[:last]
	return last > 0
}

// all appends every holding to to.
func (t *table) all(to []*holding) []*holding {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(to, t.held...)
}
