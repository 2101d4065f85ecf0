// Package top remembers which keys were refused the most, in bounded memory, for an operator who asks who it is that
// hammers. It is a sketch: a key that was refused often is surely in it, and its number is too high by at most what it says.
package top

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// MaxKeys is how many keys are remembered.
	MaxKeys = 1000
	// longest is how many bytes of a key are kept: enough to recognise it by.
	longest = 256
)

// Key is a key that was refused.
type Key struct {
	Policy string `json:"policy"`
	Key    string `json:"key"` // its first 256 bytes
	// Refused is how often, and TooMany by how much that may be too high: what was counted for keys that had to make way.
	Refused int64     `json:"refused"`
	TooMany int64     `json:"too_many"`
	Last    time.Time `json:"last"`
}

// Top counts refusals. It is safe for concurrent use. The zero value is empty and ready.
type Top struct {
	mu    sync.Mutex
	known map[name]*place
	least places
}

type name struct{ policy, key string }

type place struct {
	Key
	at int // in the heap
}

// Refused counts a refusal. When there is no room for a new key, it takes the place and the count of the one that was
// refused the least, so that no key that is refused again and again is overlooked.
func (t *Top) Refused(policy, key string) {
	if len(key) > longest {
		key = key[:longest]
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.known[name{policy, key}]
	switch {
	case p != nil:
	case len(t.least) < MaxKeys:
		key = strings.Clone(key) // the caller's may change
		if t.known == nil {
			t.known = make(map[name]*place, MaxKeys)
		}
		p = &place{Key: Key{Policy: policy, Key: key}}
		t.known[name{policy, key}] = p
		heap.Push(&t.least, p)
	default:
		key = strings.Clone(key)
		p = t.least[0]
		delete(t.known, name{p.Policy, p.Key.Key})
		p.Policy, p.Key.Key, p.TooMany = policy, key, p.Refused
		t.known[name{policy, key}] = p
	}
	p.Refused++
	p.Last = now
	heap.Fix(&t.least, p.at)
}

// List returns the n keys that were refused the most, the worst first.
func (t *Top) List(n int) []Key {
	t.mu.Lock()
	all := make([]Key, 0, len(t.least))
	for _, p := range t.least {
		all = append(all, p.Key)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(max(n, 0), len(all))]
}

// places is a heap with the least refused key on top.
type places []*place

func (h places) Len() int           { return len(h) }
func (h places) Less(i, j int) bool { return h[i].Refused < h[j].Refused }
func (h places) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push is for package heap.
func (h *places) Push(x any) {
	p := x.(*place)
	p.at = len(*h)
	*h = append(*h, p)
}

// Pop is for package heap.
func (h *places) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
