package kvstore

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Engine is a key-value engine with compare-and-swap. Its errors wrap store.ErrDown, store.ErrBusy and store.ErrRefused where they
// say something about the whole engine. An Engine is safe for concurrent use. Its methods return soon after ctx has
// ended. Neither the engine nor the store changes the bytes of a value once it has been handed over.
type Engine interface {
	// Get returns the value of a name and its revision, or the revision 0 if there is no value. It sees every Swap that returned
	// before Get was called, no matter which process called it.
	Get(ctx context.Context, name string) (value []byte, revision uint64, err error)

	// Swap writes a value if the name still has the given revision; 0 means that the name must have no value. It returns the new
	// revision. If the name has another revision, Swap writes nothing and returns an error that wraps ErrOutdated. Any other error means
	// that the outcome is unknown: the value may have been written, or may be written later, still only if the revision matches; unless it
	// wraps store.ErrUndone. A name never has the same revision twice.
	//
	// The engine keeps the value for at least keep, which is at most MaxKeep, and forgets it some time after that. An engine that
	// forgets early forgets what clients have used, and rulings.
	Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error)

	// Now returns the time at which decisions are made. It does no I/O. The clocks of processes that share the engine differ by at
	// most Traits.Skew.
	Now() rule.Micros

	// Traits reports what the engine can do. It does no I/O.
	Traits() Traits
}

// MaxKeep is the longest time for which a Store asks an engine to keep a value, a hundred years. It leaves room to add it to the
// current time in nanoseconds. What counts for longer, such as a bucket that refills in centuries, is forgotten after that time.
const MaxKeep = 100 * 365 * 24 * time.Hour

// ErrOutdated is wrapped by the error of a Swap that wrote nothing because the name has another revision. It is store.ErrOutdated.
var ErrOutdated = store.ErrOutdated

// Traits describes what an Engine can do. The zero value is valid but has no name.
type Traits struct {
	// Name is what metrics and logs call the engine, such as "nats".
	Name string
	// MaxName is the largest number of bytes in a name; 0 means 64. Names consist of letters, digits and "-".
	MaxName int
	// MaxValue is the largest number of bytes in a value; 0 means a megabyte.
	MaxValue int
	// ServerClock reports whether Now follows the clock of the engine's server rather than this machine's.
	ServerClock bool
	// Skew is the largest difference between the clocks of two processes; 0 means that it is not known.
	Skew time.Duration
}
