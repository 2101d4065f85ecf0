package kvstore

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// PutEngine is a key-value engine that can only read and write: it has no way to write a value if nobody has changed it meanwhile. It
// is safe for concurrent use. Get, Put and the rest promise what those of Engine do, except that Put always writes.
type PutEngine interface {
	// Get returns the value of a name, or nil if there is none.
	Get(ctx context.Context, name string) ([]byte, error)

	// Put writes a value, whatever was there. An error means that the value may have been written, or may be later. The engine
	// forgets the value after the time to keep it, and not before.
	Put(ctx context.Context, name string, value []byte, keep time.Duration) error

	// Now and Traits are those of Engine.
	Now() rule.Micros
	Traits() Traits
}

// WithLostUpdates makes an Engine of one that can only read and write. Limits over it are not exact once two processes share a key:
// each reads, decides and writes, and what another wrote in between is lost, however much that is. Only a key that one Store in one
// process asks for is limited exactly.
//
// Measured over memcached without its compare-and-swap: of 200 requests at once from four processes, at a limit of 50, about 130 were
// admitted in the median of 400 runs, about 180 or more in a tenth of them, and all 200 in the worst. Use it where a limit may leak, to shed
// load for example, and never to count what costs money.
func WithLostUpdates(engine PutEngine) Engine { return lostUpdates{engine} }

type lostUpdates struct{ PutEngine }

// Get returns the value. Every value has the same revision: there is nothing to tell one from another.
func (e lostUpdates) Get(ctx context.Context, name string) (value []byte, revision uint64, err error) {
	value, err = e.PutEngine.Get(ctx, name)
	if value != nil {
		revision = 1
	}
	return value, revision, err
}

// Swap writes whatever the revision is. It returns none, so that a Store reads an entry again before it decides on it.
func (e lostUpdates) Swap(ctx context.Context, name string, value []byte, _ uint64, keep time.Duration) (uint64, error) {
	return 0, e.Put(ctx, name, value, keep)
}
