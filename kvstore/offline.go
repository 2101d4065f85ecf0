package kvstore

import (
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// NewOffline returns a store over an engine with these traits that is not connected yet, for store.Driver: it has a Check and Traits,
// and all requests fail. It returns an error if the prefix is invalid.
func NewOffline(traits Traits, opts Options) (*Store, error) {
	st, err := New(noEngine{traits}, opts)
	if err != nil {
		return nil, fmt.Errorf("prefix: use up to %d letters, digits and -", traits.MaxName-1-2*hashBytes)
	}
	return st, nil
}

// noEngine is the engine of an offline store.
type noEngine struct{ traits Traits }

func (noEngine) Get(context.Context, string) ([]byte, uint64, error) { return nil, 0, store.ErrDown }

func (noEngine) Swap(context.Context, string, []byte, uint64, time.Duration) (uint64, error) {
	return 0, store.ErrDown
}

func (noEngine) Now() rule.Micros { return 0 }

func (e noEngine) Traits() Traits { return e.traits }
