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
	place int    // index in soonest
}

// blocks holds the keys that servers have blocked, up to a maximum number. It is safe for concurrent use.
type blocks struct {
	maxKeys int

	mu      sync.Mutex
	byKey   map[string]*block
	soonest soonest
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
			heap.Fix(&b.soonest, one.place)
		}
		return
	}
	for len(b.soonest) > 0 && !b.soonest[0].until.After(now) {
		b.forgetLocked()
	}
	if len(b.soonest) == b.maxKeys {
		if !until.After(b.soonest[0].until) {
			return // the new block ends soonest
		}
		b.forgetLocked()
	}
	one := &block{key: key, until: until, limit: limit}
	b.byKey[key] = one
	heap.Push(&b.soonest, one)
}

// forgetLocked drops the block that ends soonest.
func (b *blocks) forgetLocked() {
	one := heap.Pop(&b.soonest).(*block)
	delete(b.byKey, one.key)
}

// soonest is a heap of blocks, with the one that ends soonest first.
type soonest []*block

func (s soonest) Len() int           { return len(s) }
func (s soonest) Less(i, j int) bool { return s[i].until.Before(s[j].until) }
func (s soonest) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i, j
}

func (s *soonest) Push(one any) {
	b := one.(*block)
	b.place = len(*s)
	*s = append(*s, b)
}

func (s *soonest) Pop() any {
	last := len(*s) - 1
	one := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return one
}
