package memcached_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/store"
)

func keyOf(i int) string { return "key-" + strconv.Itoa(i) }

// fill takes a unit of each key, in order and several concurrently, until the first error. It returns the number of keys before the
// first one that failed, and the error.
func fill(t testing.TB, st store.Store, limit *store.Limit, keys int) (int, error) {
	t.Helper()
	const together = 64
	for first := 0; first < keys; first += together {
		var wait sync.WaitGroup
		var failed atomic.Pointer[error]
		for i := first; i < min(keys, first+together); i++ {
			wait.Go(func() {
				if _, err := take(t.Context(), st, limit, keyOf(i), 1); err != nil {
					failed.Store(&err)
				}
			})
		}
		wait.Wait()
		if err := failed.Load(); err != nil {
			return first, *err
		}
	}
	return keys, nil
}
