package store

import (
	"errors"
	"fmt"
	"sync"
)

// ErrConflict is wrapped by errors that report two different limits with the same address.
var ErrConflict = errors.New("one address with two different limits")

// Declarer is an optional interface for Stores that remember the limits of the limiters over them, so that two limiters do
// not share counts by mistake. slidegate.New calls it, even through layers. A Store implements it by embedding a Registry.
type Declarer interface {
	// Declare remembers limits. Two limits conflict if neither has a name and they have the same namespace and shape but
	// are not equal: for example, they have different quotas or bursts, or only one of them counts refused requests. If one
	// of limits conflicts with a declared limit, Declare returns an error that wraps ErrConflict, and remembers none of
	// them. A limit with a name may change: the name identifies it.
	Declare(limits ...*Limit) error
}

// maxDeclared is how many limits a Registry remembers. Further limits are checked against those, but not remembered.
const maxDeclared = 1 << 14

// Registry is a Declarer for one Store. The zero value is empty and ready to use. It is safe for concurrent use, and must
// not be copied. It belongs to a Store value: two Stores over one server do not share it.
type Registry struct {
	mu      sync.Mutex
	unnamed map[string]*Limit // by prefix
}

// Declare remembers limits, or returns an error; see Declarer.
func (r *Registry) Declare(limits ...*Limit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, limit := range limits {
		earlier := r.unnamed[limit.prefix]
		if limit.name == "" && earlier != nil && earlier.rule != limit.rule {
			return fmt.Errorf("store: %w: %q and %q of two limiters on one store have no name and would share their counts; "+
				"set Name in each limit, or Namespace in the options of a limiter, or make plans of one limiter with With",
				ErrConflict, earlier.label, limit.label)
		}
	}
	for _, limit := range limits {
		if limit.name != "" || r.unnamed[limit.prefix] != nil || len(r.unnamed) >= maxDeclared {
			continue
		}
		if r.unnamed == nil {
			r.unnamed = map[string]*Limit{}
		}
		r.unnamed[limit.prefix] = limit
	}
	return nil
}
