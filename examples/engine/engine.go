// Package engine is a key-value engine in a map, with the four methods that package kvstore needs to build a store on it. It
// never forgets a value, so it is an example to read, not to use.
package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
)

// Engine is a kvstore.Engine in this process. It is safe for concurrent use, and the zero value is empty and ready to use.
type Engine struct {
	entries sync.Map // from names to entries
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

// Swap writes a value if the revision of the name is still the given one.
func (e *Engine) Swap(ctx context.Context, name string, value []byte, revision uint64, _ time.Duration) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	next := entry{string(value), revision + 1}
	if revision == 0 {
		if _, taken := e.entries.LoadOrStore(name, next); taken {
			return 0, fmt.Errorf("engine: %w", kvstore.ErrConflict)
		}
		return next.revision, nil
	}
	old, ok := e.entries.Load(name)
	if !ok || old.(entry).revision != revision || !e.entries.CompareAndSwap(name, old, next) {
		return 0, fmt.Errorf("engine: %w", kvstore.ErrConflict)
	}
	return next.revision, nil
}

// Now returns the time that decides.
func (e *Engine) Now() rule.Micros { return rule.Micros(time.Now().UnixMicro()) }

// Traits reports what the engine can do.
func (e *Engine) Traits() kvstore.Traits { return kvstore.Traits{Name: "map"} }
