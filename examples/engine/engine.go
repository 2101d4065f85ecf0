// Package engine is a key-value engine in a map, with the four methods that package kvstore needs to build a store on it. It
// is an example to read; to keep counts in memory, use memstore.
package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
)

// Engine is a kvstore.Engine in this process. It is safe for concurrent use, and the zero value is empty and ready to use.
type Engine struct {
	entries   sync.Map // from names to entries
	revisions atomic.Uint64
}

type entry struct {
	value    string // comparable, so that sync.Map can compare and swap
	revision uint64
}

// Get returns the value of a name and its revision.
func (e *Engine) Get(ctx context.Context, name string) ([]byte, uint64, error) {
	found, ok := e.entries.Load(name)
	if !ok {
		return nil, 0, ctx.Err()
	}
	return []byte(found.(entry).value), found.(entry).revision, ctx.Err()
}

// Swap writes a value if the revision of the name is still the given one, and forgets it after the time to keep it.
func (e *Engine) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	next := entry{string(value), e.revisions.Add(1)}
	if !e.swap(name, revision, next) {
		return 0, fmt.Errorf("engine: %w", kvstore.ErrOutdated)
	}
	time.AfterFunc(keep, func() { e.entries.CompareAndDelete(name, next) })
	return next.revision, nil
}

func (e *Engine) swap(name string, revision uint64, next entry) bool {
	if revision == 0 {
		_, taken := e.entries.LoadOrStore(name, next)
		return !taken
	}
	old, ok := e.entries.Load(name)
	return ok && old.(entry).revision == revision && e.entries.CompareAndSwap(name, old, next)
}

// Now returns the time that decides.
func (e *Engine) Now() rule.Micros { return rule.Micros(time.Now().UnixMicro()) }

// Traits reports what the engine can do.
func (e *Engine) Traits() kvstore.Traits { return kvstore.Traits{Name: "map"} }
