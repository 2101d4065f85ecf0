package memcached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
)

// Options are the choices of an Engine. One of the two fields is required.
type Options struct {
	// ClockServer is the address of the server whose clock decides, written as for the client: the first of the client's servers,
	// and the same one in every process.
	ClockServer string
	// MachineClock decides by the clock of this machine in place of a server's. Processes whose clocks differ by d then decide about
	// a key as if its window were shorter by up to d. It is for servers that forbid watching (-W) and those older than 1.6.
	MachineClock bool
}

// Engine is one memcached server, or several among which the client chooses by name. It is safe for concurrent use. The zero value is
// not usable; Open makes it. Close it; the client stays the caller's.
type Engine struct {
	client *memcache.Client
	clock  clock
}

// Open returns an engine over a client, and reads the server's clock. A server may take as long over a question as the client's
// Timeout says. When a connection turns out to be broken, the engine closes those that the client has idle.
func Open(ctx context.Context, client *memcache.Client, opts Options) (*Engine, error) {
	switch {
	case client == nil:
		return nil, errors.New("memcached: client: must not be nil; memcache.New makes one")
	case opts.ClockServer == "" && !opts.MachineClock:
		return nil, errors.New("memcached: ClockServer: must not be empty; name the first of the client's servers, such as localhost:11211, or set MachineClock")
	case opts.ClockServer != "" && opts.MachineClock:
		return nil, errors.New("memcached: MachineClock: must be false if ClockServer is set; choose one of the two")
	case opts.MachineClock:
		return &Engine{client: client, clock: machineClock{}}, nil
	}
	clock, err := openServerClock(ctx, client, opts.ClockServer)
	if err != nil {
		return nil, err
	}
	return &Engine{client: client, clock: clock}, nil
}

// Close stops looking at the server's clock.
func (e *Engine) Close() { e.clock.close() }

// Get returns the value of a name.
func (e *Engine) Get(ctx context.Context, name string) ([]byte, uint64, error) {
	item, err := within(ctx, func() (*memcache.Item, error) { return e.client.Get(name) })
	if broken(err) { // by a restart of the server, most likely: then all that are idle are
		_ = e.client.Close()
		item, err = within(ctx, func() (*memcache.Item, error) { return e.client.Get(name) })
	}
	switch {
	case errors.Is(err, memcache.ErrCacheMiss):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("memcached: %w", err)
	case item.CasID == 0:
		return nil, 0, errors.New("memcached: the server does not number its entries, so nothing can be swapped; start it without -C")
	}
	return item.Value, item.CasID, nil
}

// Swap writes a value if nobody has written the name since the revision was read. It returns no revision, since memcached does
// not tell.
func (e *Engine) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	item := &memcache.Item{Key: name, Value: value, CasID: revision, Expiration: expiration(e.clock.serverSeconds(), keep)}
	write := e.client.CompareAndSwap
	if revision == 0 {
		write = e.client.Add
	}
	_, err := within(ctx, func() (struct{}, error) { return struct{}{}, write(item) })
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCASConflict), errors.Is(err, memcache.ErrCacheMiss):
		return 0, fmt.Errorf("memcached: %w", kvstore.ErrConflict)
	case strings.Contains(err.Error(), "SERVER_ERROR out of memory"):
		return 0, fmt.Errorf("memcached: the server is full; start it with more memory (-m): %w", err)
	}
	return 0, fmt.Errorf("memcached: %w", err)
}

// within returns what do returns, or an error when ctx ends. The client knows no contexts: what it does ends by its own timeout then.
func within[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// broken reports whether an error is that of a connection which the other side has closed.
func broken(err error) bool {
	for _, of := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

const (
	// longestRelative is up to how many seconds memcached takes a time to live as such. It takes a larger number for a moment.
	longestRelative = 30 * 24 * 60 * 60
	// behind is how many seconds the clock by which memcached forgets can be late: it has whole seconds, and is set once a second.
	behind = 2
	// latest is the last moment that the client can name, in 2038.
	latest = 1<<31 - 1
)

// expiration returns how memcached is told to keep a value for so long at least: as a length up to 30 days, and above that as a moment
// by its own clock. 0 keeps it for ever.
func expiration(serverSeconds int64, keep time.Duration) int32 {
	seconds := int64(keep/time.Second) + behind
	if keep%time.Second > 0 {
		seconds++
	}
	if seconds > longestRelative {
		seconds += serverSeconds
	}
	if seconds > latest {
		return 0
	}
	return int32(max(1+behind, seconds))
}

// Now returns the time by the server's clock, or by this machine's if Options say so.
func (e *Engine) Now() rule.Micros { return e.clock.now() }

// Skew reports by how much Now may differ from the server's clock; 0 with MachineClock, about which nothing is known.
func (e *Engine) Skew() time.Duration { return e.clock.skew() }

// Traits reports what memcached can do. Values may be a kilobyte shorter than an item of the server, which also holds the name.
func (e *Engine) Traits() kvstore.Traits {
	_, machine := e.clock.(machineClock)
	return kvstore.Traits{Name: "memcached", MaxName: 250, MaxValue: 1<<20 - 1<<10, ServerClock: !machine, Skew: 2 * e.Skew()}
}
