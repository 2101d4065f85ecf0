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

// kvOptions returns the options of a store over an engine. Its own timeout is no shorter than that of the failure modes, which answer
// first.
func kvOptions(prefix string, timeout time.Duration) kvstore.Options {
	return kvstore.Options{Prefix: prefix, Timeout: max(timeout, time.Second)}
}

// sketchKV returns a store over an engine that is never asked, or an error if the prefix is wrong.
func sketchKV(traits kvstore.Traits, opts kvstore.Options) (store.Store, error) {
	st, err := kvstore.New(noEngine{traits}, opts)
	if err != nil {
		return nil, invalid("URL", "prefix: use letters, digits and -, and no more than %d of them", traits.MaxName-maxHash)
	}
	return st, nil
}

// maxHash is how much of a name is the hash of a key, with what stands before it.
const maxHash = 33

// noEngine is an engine that is not there, of a sketch that is never asked.
type noEngine struct{ traits kvstore.Traits }

func (noEngine) Get(context.Context, string) ([]byte, uint64, error) { return nil, 0, ErrDown }

func (noEngine) Swap(context.Context, string, []byte, uint64, time.Duration) (uint64, error) {
	return 0, ErrDown
}

func (noEngine) Now() rule.Micros { return 0 }

func (e noEngine) Traits() kvstore.Traits { return e.traits }
