package slidegate

import (
	"fmt"

	"github.com/slidegate/slidegate/store"
)

// Over returns a limiter with the same limits and namespace over another store: the one that wrap makes of this
// limiter's, such as a layer over it.
func (l *Limiter) Over(wrap func(store.Store) (store.Store, error)) (*Limiter, error) {
	wrapped, err := wrap(l.store)
	if err != nil {
		return nil, err
	}
	if wrapped == nil {
		return nil, fmt.Errorf("slidegate: store: must not be nil; Over needs what it returns to be a store")
	}
	return newLimiter(wrapped, l.opts, &boundLimits{namespace: l.opts.Namespace, store: wrapped})
}
