package memcached_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/formats"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/memcachedtest"
)

// What a released version has written to memcached is read, and written the same, under keys that are the names of entries; see package
// formats. It keeps no documents.
func TestReadsReleasedFormats(t *testing.T) {
	t.Parallel()
	client := memcachedtest.Start(t).Client(t)
	engine := &naming{Engine: openOnMachineClock(t, client), names: map[string]bool{}}
	formats.Check(t, formats.KeyValue, formats.Entries{
		Names: func(testing.TB) []string { return slices.Sorted(maps.Keys(engine.names)) },
		Get: func(t testing.TB, name string) []byte {
			return kit.Must(client.Get(name))(t).Value
		},
		Put: func(t testing.TB, name string, value []byte) {
			engine.note(name)
			if err := client.Set(&memcache.Item{Key: name, Value: value}); err != nil {
				t.Fatal(err)
			}
		},
		Forget: func(t testing.TB) {
			for name := range engine.names {
				if err := client.Delete(name); err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
					t.Fatal(err)
				}
			}
			clear(engine.names)
		},
		New: func(t testing.TB, now func() rule.Micros) store.Store {
			return newStore(t, engine, kvstore.Options{Now: now})
		},
	}, false)
}

// naming knows the names that were written: memcached does not list all of them reliably.
type naming struct {
	kvstore.Engine
	mu    sync.Mutex
	names map[string]bool
}

func (n *naming) note(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = true
}

func (n *naming) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	n.note(name)
	return n.Engine.Swap(ctx, name, value, revision, keep)
}
