// Package memcached keeps entries of a kvstore.Store in memcached.
//
//	engine, err := memcached.New(memcache.New("localhost:11211"))
//	...
//	st, err := kvstore.New(engine, kvstore.Options{})
//
// memcached is a cache, and says so: what it forgets, limits forget. A restart forgets everything, and every key has its whole quota
// again. A server that is full forgets entries that were not used for the longest time, unless it runs with -M, which makes it refuse
// new ones by an error instead: run it with -M, or with far more memory than the keys of the longest window need.
//
// memcached tells nobody its clock to the microsecond, so the clock is that of each process. Processes whose clocks differ by d decide
// about a key as if its window were shorter by up to d; time does not go backwards for a key. Keep clocks together by NTP.
package memcached

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
)

// Engine is one memcached server, or several among which the client chooses by name. It is safe for concurrent use.
type Engine struct{ client *memcache.Client }

// New returns an engine over a client, which stays the caller's to close. The client's Timeout is how long a server may take.
func New(client *memcache.Client) (*Engine, error) {
	if client == nil {
		return nil, errors.New("memcached: client: must not be nil; memcache.New makes one")
	}
	return &Engine{client}, nil
}

// Get returns the value of a name.
func (e *Engine) Get(ctx context.Context, name string) ([]byte, uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("memcached: %w", err)
	}
	item, err := e.client.Get(name)
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("memcached: %w", err)
	}
	return item.Value, item.CasID, nil
}

// longestRelative is up to which length memcached takes a time to live as such; a longer one it takes for a moment.
const longestRelative = 30 * 24 * time.Hour

// Swap writes a value if nobody has written the name since the revision was read. It does not know the new revision, which memcached
// does not tell.
func (e *Engine) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("memcached: %w", err)
	}
	item := &memcache.Item{Key: name, Value: value, CasID: revision, Expiration: expiration(time.Now(), keep)}
	var err error
	if revision == 0 {
		err = e.client.Add(item)
	} else {
		err = e.client.CompareAndSwap(item)
	}
	switch {
	case errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCASConflict), errors.Is(err, memcache.ErrCacheMiss):
		return 0, fmt.Errorf("memcached: %w", kvstore.ErrConflict)
	case err != nil:
		return 0, fmt.Errorf("memcached: %w", err)
	}
	return 0, nil
}

// expiration returns how memcached is told to keep a value so long: in whole seconds, as a length up to 30 days and as a moment above
// that.
func expiration(now time.Time, keep time.Duration) int32 {
	const latest = 1<<31 - 1 // what the client can say: 2038; memcached then keeps the value for ever
	seconds := int64((keep + time.Second - 1) / time.Second)
	if keep > longestRelative {
		seconds += now.Unix() + 1
	}
	if seconds > latest {
		return 0
	}
	return int32(max(1, seconds))
}

// Now returns the time of this machine.
func (e *Engine) Now() rule.Micros { return rule.Micros(time.Now().UnixMicro()) }

// Traits reports what memcached can do.
func (e *Engine) Traits() kvstore.Traits {
	return kvstore.Traits{Name: "memcached", MaxName: 250, MaxValue: 1<<20 - 1024}
}
