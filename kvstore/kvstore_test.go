package kvstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// table is an engine in this process. It keeps everything.
type table struct {
	mu       sync.Mutex
	values   map[string]value
	revision uint64
	gets     int
	swaps    int
	others   func(name string) // is called before every swap, outside of the lock
}

type value struct {
	bytes    []byte
	revision uint64
}

func (t *table) Get(ctx context.Context, name string) ([]byte, uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gets++
	v := t.values[name]
	return v.bytes, v.revision, ctx.Err()
}

func (t *table) Swap(ctx context.Context, name string, bytes []byte, revision uint64, _ time.Duration) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if t.others != nil {
		t.others(name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.swaps++
	if t.values[name].revision != revision {
		return 0, fmt.Errorf("table: %w", kvstore.ErrConflict)
	}
	if t.values == nil {
		t.values = map[string]value{}
	}
	t.revision++
	t.values[name] = value{bytes, t.revision}
	return t.revision, nil
}

func (t *table) Now() rule.Micros { return rule.Micros(time.Now().UnixMicro()) }

func (t *table) Traits() kvstore.Traits { return kvstore.Traits{Name: "table"} }

func newStore(t testing.TB, engine kvstore.Engine, opts kvstore.Options) *kvstore.Store {
	t.Helper()
	s, err := kvstore.New(engine, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	engine := &table{}
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, engine, kvstore.Options{Now: clock.Now, Timeout: time.Minute})
	})
}

func TestContractWithoutMemory(t *testing.T) {
	engine := &table{}
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, engine, kvstore.Options{Now: clock.Now, Timeout: time.Minute, Remember: -1})
	}, storetest.Options{Short: true})
}
