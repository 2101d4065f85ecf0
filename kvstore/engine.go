package kvstore

import (
	"context"
	"errors"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// Engine is a key-value engine. It is safe for concurrent use.
type Engine interface {
	// Get returns the value of a name and its revision, or a revision of 0 if there is none. The value is at least as new as all that
	// was swapped in before Get was called.
	Get(ctx context.Context, name string) (value []byte, revision uint64, err error)

	// Swap writes a value and returns its revision, or 0 if the engine does not tell, if the revision of the name is still the given
	// one; 0 means that there must be no value. If it is not, nothing is written, and the error wraps ErrConflict. Any other error means that the value may
	// have been written, or may be later. The engine forgets the value after the time to keep it, and not before.
	Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error)

	// Now returns the time that decides. The clocks of processes that share the engine may differ by at most Traits().Skew.
	Now() rule.Micros

	// Traits reports what the engine can do.
	Traits() Traits
}

// ErrConflict is wrapped by the error of a Swap that came too late.
var ErrConflict = errors.New("another process has changed the entry")

// Traits describe an Engine.
type Traits struct {
	// Name is what metrics and logs call the engine, such as "nats".
	Name string
	// MaxName is how many bytes a name may have. Names are of letters, digits and "-" alone. 0 means 64.
	MaxName int
	// MaxValue is how many bytes a value may have. 0 means a megabyte.
	MaxValue int
	// ServerClock: Now is the clock of the engine's server, not of this machine.
	ServerClock bool
	// Skew is by how much the clocks of two processes may differ.
	Skew time.Duration
}
