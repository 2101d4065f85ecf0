package kvstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// putTable is an engine in this process that can only read and write. It keeps everything.
type putTable struct {
	values sync.Map
	fails  error
}

func (p *putTable) Get(_ context.Context, name string) ([]byte, error) {
	value, _ := p.values.Load(name)
	bytes, _ := value.([]byte)
	return bytes, p.fails
}

func (p *putTable) Put(_ context.Context, name string, value []byte, _ time.Duration) error {
	p.values.Store(name, value)
	return p.fails
}

func (p *putTable) Now() rule.Micros { return rule.Micros(time.Now().UnixMicro()) }

func (p *putTable) Traits() kvstore.Traits { return kvstore.Traits{Name: "put"} }

// A single store keeps the whole contract.
func TestContractWithLostUpdates(t *testing.T) {
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, kvstore.WithLostUpdates(&putTable{}), kvstore.Options{Now: clock.Now, Timeout: time.Minute})
	}, storetest.Options{Short: true})
}

func TestWithLostUpdates(t *testing.T) {
	table := &putTable{}
	engine := kvstore.WithLostUpdates(table)
	if value, revision, err := engine.Get(t.Context(), "name"); value != nil || revision != 0 || err != nil {
		t.Errorf("Get of an unknown name returned %q, %d, %v", value, revision, err)
	}
	for _, revision := range []uint64{0, 0, 1, 7} { // every revision is accepted
		if after, err := engine.Swap(t.Context(), "name", []byte("value"), revision, time.Minute); after != 0 || err != nil {
			t.Errorf("a swap at revision %d returned %d, %v", revision, after, err)
		}
	}
	if value, revision, err := engine.Get(t.Context(), "name"); string(value) != "value" || revision == 0 || err != nil {
		t.Errorf("Get after the swaps returned %q, %d, %v", value, revision, err)
	}
	table.fails = errors.New("away")
	_, _, getErr := engine.Get(t.Context(), "name")
	if _, err := engine.Swap(t.Context(), "name", nil, 1, time.Minute); !errors.Is(err, table.fails) || !errors.Is(getErr, table.fails) {
		t.Errorf("got errors %v and %v, want the engine's", getErr, err)
	}
}
