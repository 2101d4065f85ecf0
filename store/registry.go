package store

import (
	"errors"
	"fmt"
	"sync"
)

// ErrConflict is wrapped by errors about two different limits that have the same address.
var ErrConflict = errors.New("one address with two different limits")

// Declarer is an optional interface for Stores that remember the limits of the limiters over them, so that two limiters
// do not count in the same place by mistake. slidegate.New asks it, also through layers. A Store implements it by
// embedding a Registry.
type Declarer interface {
	// Declare remembers limits. It returns an error that wraps ErrConflict, and remembers none of them, if one has no name,
	// and another without a name was declared that has the same namespace and shape but is not equal: it has another quota or
	// burst, say, or only one of them counts refused requests. Limits with a name may change: the name says that they are the
	// same limit.
	Declare(limits ...*Limit) error
}

// maxDeclared is how many limits a Registry remembers. Further ones are checked against those, and not remembered.
const maxDeclared = 1 << 14

// Registry is a Declarer for one Store. The zero value is empty and ready to use; it is safe for concurrent use, and must
// not be copied. It belongs to a Store value: two Stores over one server do not know of each other.
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
				"set Name in each limit, or Namespace in the options of a limiter, or make plans of one limiter using With",
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
