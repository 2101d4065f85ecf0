// Package blocks remembers how long servers have asked a client to wait, for the HTTP transport and the gRPC client.
package blocks

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Blocks holds the keys that servers have blocked, up to a maximum number. When there are more, the block that ends soonest is
// dropped: the server will refuse once more with the same answer. It is safe for concurrent use.
type Blocks[K comparable] struct {
	maxKeys int
	some    atomic.Bool // there may be blocks, so it is worth the lock

	mu    sync.Mutex
	byKey map[K]*block[K]
	byEnd byEnd[K]
}

// block is a server's request not to use a key before a time.
type block[K comparable] struct {
	key   K
	until time.Time
	limit string // the server's name for the limit
	index int    // index in Blocks.byEnd
}

// New returns an empty Blocks.
func New[K comparable](maxKeys int) *Blocks[K] {
	return &Blocks[K]{maxKeys: maxKeys, byKey: map[K]*block[K]{}}
}

// Find returns how long a key is blocked, and the server's name for the limit. 0 means that it is not.
func (b *Blocks[K]) Find(key K, now time.Time) (left time.Duration, limit string) {
	if !b.some.Load() {
		return 0, ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropEndedLocked(now)
	if one := b.byKey[key]; one != nil {
		return one.until.Sub(now), one.limit
	}
	return 0, ""
}

// Add blocks a key until a time, unless it is already blocked for longer.
func (b *Blocks[K]) Add(key K, until time.Time, limit string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropEndedLocked(now)
	if one := b.byKey[key]; one != nil {
		if until.After(one.until) {
			one.until, one.limit = until, limit
			heap.Fix(&b.byEnd, one.index)
		}
		return
	}
	if len(b.byEnd) == b.maxKeys {
		if !until.After(b.byEnd[0].until) {
			return // the new block ends soonest
		}
		b.dropLocked()
	}
	one := &block[K]{key: key, until: until, limit: limit}
	b.byKey[key] = one
	heap.Push(&b.byEnd, one)
	b.some.Store(true)
}

func (b *Blocks[K]) dropEndedLocked(now time.Time) {
	for len(b.byEnd) > 0 && !b.byEnd[0].until.After(now) {
		b.dropLocked()
	}
	b.some.Store(len(b.byEnd) > 0)
}

// dropLocked drops the block that ends soonest.
func (b *Blocks[K]) dropLocked() {
	one := heap.Pop(&b.byEnd).(*block[K])
	delete(b.byKey, one.key)
}

// byEnd is a heap of blocks, with the one that ends soonest first.
type byEnd[K comparable] []*block[K]

func (s byEnd[K]) Len() int           { return len(s) }
func (s byEnd[K]) Less(i, j int) bool { return s[i].until.Before(s[j].until) }
func (s byEnd[K]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *byEnd[K]) Push(one any) {
	b := one.(*block[K])
	b.index = len(*s)
	*s = append(*s, b)
}

func (s *byEnd[K]) Pop() any {
	last := len(*s) - 1
	one := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return one
}

// Pause waits for d, or returns why ctx ended first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
