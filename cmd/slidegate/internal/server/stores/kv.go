package stores

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// kvEngine is a key-value engine that can be closed.
type kvEngine interface {
	kvstore.Engine
	Close()
}

// kvOptions returns the options of a store over an engine. Its timeout is at least a second and never shorter than the timeout of
// the failure modes, which expires first.
func kvOptions(prefix string, timeout time.Duration) kvstore.Options {
	return kvstore.Options{Prefix: prefix, Timeout: max(timeout, time.Second)}
}

// offlineKV returns a store over an engine that is never called, or an error if the prefix is invalid.
func offlineKV(traits kvstore.Traits, opts kvstore.Options) (store.Store, error) {
	st, err := kvstore.New(noEngine{traits}, opts)
	if err != nil {
		return nil, invalid("URL", "prefix: use up to %d letters, digits and -", traits.MaxName-maxHash)
	}
	return st, nil
}

// maxHash is the number of bytes of a name that the hash of a key and the character before it take.
const maxHash = 33

// noEngine is the engine of an offline store. It is never called.
type noEngine struct{ traits kvstore.Traits }

func (noEngine) Get(context.Context, string) ([]byte, uint64, error) { return nil, 0, ErrDown }

func (noEngine) Swap(context.Context, string, []byte, uint64, time.Duration) (uint64, error) {
	return 0, ErrDown
}

func (noEngine) Now() rule.Micros { return 0 }

func (e noEngine) Traits() kvstore.Traits { return e.traits }
