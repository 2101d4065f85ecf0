package httplimit

import (
	"container/heap"
	"sync"
	"time"
)

// block is a server's request not to use a key before a time.
type block struct {
	key   string
	until time.Time
	limit string // the server's name for the limit
	index int    // index in blocks.byEnd
}

// blocks holds the keys that servers have blocked, up to a maximum number. It is safe for concurrent use.
type blocks struct {
	maxKeys int

	mu    sync.Mutex
	byKey map[string]*block
	byEnd blockHeap
}

func newBlocks(maxKeys int) *blocks { return &blocks{maxKeys: maxKeys, byKey: map[string]*block{}} }

// refusal returns how long key is blocked; nil means that it is not.
func (b *blocks) refusal(key string, now time.Time) *RefusedError {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.byKey[key]; one != nil && one.until.After(now) {
		return &RefusedError{RetryAfter: one.until.Sub(now), Limit: one.limit, Server: true}
	}
	return nil
}

// add blocks key until a time, unless it is already blocked for longer.
func (b *blocks) add(key string, until time.Time, limit string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.byKey[key]; one != nil {
		if until.After(one.until) {
			one.until, one.limit = until, limit
			heap.Fix(&b.byEnd, one.index)
		}
		return
	}
	for len(b.byEnd) > 0 && !b.byEnd[0].until.After(now) {
		b.forgetLocked()
	}
	if len(b.byEnd) == b.maxKeys {
		if !until.After(b.byEnd[0].until) {
			return // the new block ends soonest
		}
		b.forgetLocked()
	}
	one := &block{key: key, until: until, limit: limit}
	b.byKey[key] = one
	heap.Push(&b.byEnd, one)
}

// forgetLocked drops the block that ends soonest.
func (b *blocks) forgetLocked() {
	one := heap.Pop(&b.byEnd).(*block)
	delete(b.byKey, one.key)
}

// blockHeap is a heap of blocks, with the one that ends soonest first.
type blockHeap []*block

func (s blockHeap) Len() int           { return len(s) }
func (s blockHeap) Less(i, j int) bool { return s[i].until.Before(s[j].until) }
func (s blockHeap) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *blockHeap) Push(one any) {
	b := one.(*block)
	b.index = len(*s)
	*s = append(*s, b)
}

func (s *blockHeap) Pop() any {
	last := len(*s) - 1
	one := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return one
}
