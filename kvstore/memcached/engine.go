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

// Options configures an Engine. Set exactly one of ClockServer and MachineClock.
type Options struct {
	// ClockServer is the address of the server whose clock is used, written as for the client. Use the first of the client's
	// servers: it must be the same one in every process.
	ClockServer string
	// MachineClock uses the clock of this machine instead of a server's. If the clocks of two processes differ by d, a window
	// that they share may be too short by d. It is for servers that do not allow "watch", such as those started with -W.
	MachineClock bool
	// Servers is the selector of a client with several servers, such as a *memcache.ServerList. With it the engine knows which
	// server has which keys, so that the failure of one server concerns only its keys. The servers must not change.
	Servers memcache.ServerSelector
}

// Engine is a kvstore.Engine over one memcached server, or over several if the client has several. It is safe for concurrent use.
// The zero value is not usable; call New, and Close after the last use. Close does not close the client.
type Engine struct {
	client  *memcache.Client
	clock   *serverClock // nil for the clock of this machine
	servers memcache.ServerSelector
	numbers map[string]int // of the servers, by address
}

// New returns an engine over a client, and reads the server's clock; it fails if that fails. The client's Timeout bounds a single
// read or write, and kvstore.Options.Timeout a decision. When a connection turns out to be broken, the engine closes the client's
// idle connections, since a restart of the server has probably broken them all. Set the client's MaxIdleConns to the number of
// concurrent decisions.
func New(ctx context.Context, client *memcache.Client, opts Options) (*Engine, error) {
	switch {
	case client == nil:
		return nil, errors.New("memcached: client: must not be nil; create one with memcache.New")
	case opts.ClockServer == "" && !opts.MachineClock:
		return nil, errors.New("memcached: ClockServer: must not be empty; name the first of the client's servers, such as localhost:11211, or set MachineClock")
	case opts.ClockServer != "" && opts.MachineClock:
		return nil, errors.New("memcached: MachineClock: must be false if ClockServer is set; choose one of the two")
	case opts.MachineClock:
		return newEngine(client, nil, opts.Servers)
	}
	clock, err := openServerClock(ctx, client, opts.ClockServer)
	if err != nil {
		return nil, err
	}
	return newEngine(client, clock, opts.Servers)
}

// newEngine numbers the servers.
func newEngine(client *memcache.Client, clock *serverClock, servers memcache.ServerSelector) (*Engine, error) {
	e := &Engine{client: client, clock: clock, servers: servers, numbers: map[string]int{}}
	if servers == nil {
		return e, nil
	}
	err := servers.Each(func(addr net.Addr) error {
		e.numbers[addr.String()] = len(e.numbers) % maxNodes
		return nil
	})
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("memcached: Servers: %w", err)
	}
	return e, nil
}

const maxNodes = 1024 // numbers of nodes are below it

// Nodes returns the number of servers in Options.Servers; see kvstore.NodeEngine.
func (e *Engine) Nodes() int { return len(e.numbers) }

// Node returns the number of the server that has a name. Without Options.Servers it is 0.
func (e *Engine) Node(name string) int {
	if e.servers == nil {
		return 0
	}
	addr, err := e.servers.PickServer(name)
	if err != nil {
		return 0
	}
	return e.numbers[addr.String()]
}

// Close stops following the server's clock.
func (e *Engine) Close() {
	if e.clock != nil {
		e.clock.Stop()
	}
}

// Get returns the value of a name.
func (e *Engine) Get(ctx context.Context, name string) ([]byte, uint64, error) {
	item, err := within(ctx, func() (*memcache.Item, error) { return e.client.Get(name) })
	if isBroken(err) { // a read changes nothing, so it is safe to repeat
		_ = e.client.Close()
		item, err = within(ctx, func() (*memcache.Item, error) { return e.client.Get(name) })
	}
	switch {
	case errors.Is(err, memcache.ErrCacheMiss):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("memcached: %w", fault(err))
	case item.CasID == 0:
		return nil, 0, errors.New("memcached: the server does not number its entries, so compare-and-swap is impossible; start it without -C")
	}
	return item.Value, item.CasID, nil
}

// Swap writes a value if the name has not been written since the revision was read. It reports no revision, because the client
// returns none.
func (e *Engine) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	item := &memcache.Item{Key: name, Value: value, CasID: revision, Expiration: expiration(e.serverSeconds(), keep)}
	write := e.client.CompareAndSwap
	if revision == 0 {
		write = e.client.Add
	}
	_, err := within(ctx, func() (struct{}, error) { return struct{}{}, write(item) })
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCASConflict), errors.Is(err, memcache.ErrCacheMiss):
		return 0, fmt.Errorf("memcached: %w", kvstore.ErrOutdated)
	case strings.Contains(err.Error(), "SERVER_ERROR out of memory"):
		return 0, fmt.Errorf("memcached: the server is full; start it with more memory (-m): %w", fault(err))
	case strings.Contains(err.Error(), "SERVER_ERROR object too large"):
		return 0, fmt.Errorf("memcached: an entry of %d bytes is too large for the server; start it with larger items (-I): %w", len(value), fault(err))
	}
	return 0, fmt.Errorf("memcached: %w", fault(err))
}

// within calls do and returns its result, or an error if ctx ends first. The client takes no context, so do then continues until
// the client's own timeout.
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

// isBroken reports whether an error means that the other side has closed the connection.
func isBroken(err error) bool {
	for _, of := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

const (
	// maxName is the longest name that memcached takes.
	maxName = 250
	// maxRelative is the largest number of seconds that memcached takes as a time to live. It takes larger numbers as Unix times.
	maxRelative = 30 * 24 * 60 * 60
	// maxBehind is how many seconds memcached's clock for expiry can be late: it counts whole seconds, and is updated once a second.
	maxBehind = 2
	// latest is the last Unix time that the client can send, in the year 2038.
	latest = 1<<31 - 1
)

// expiration returns what to send to memcached so that it keeps a value for at least keep: a number of seconds up to 30 days, and a
// time by the server's own clock above that. 0 keeps the value forever.
func expiration(serverSeconds int64, keep time.Duration) int32 {
	seconds := int64(keep/time.Second) + maxBehind
	if keep%time.Second > 0 {
		seconds++
	}
	if seconds > maxRelative {
		seconds += serverSeconds
	}
	if seconds > latest {
		return 0
	}
	return int32(max(1+maxBehind, seconds))
}

// serverSeconds returns the time by memcached's clock for expiry, as far as it is known.
func (e *Engine) serverSeconds() int64 {
	if e.clock == nil {
		return time.Now().Unix()
	}
	return e.clock.serverSeconds()
}

// Now returns the time by the server's clock, or by this machine's with MachineClock.
func (e *Engine) Now() rule.Micros {
	if e.clock == nil {
		return rule.Micros(time.Now().UnixMicro())
	}
	return e.clock.Now()
}

// Traits reports what memcached can do with its default of a megabyte per item (-I), which the name is part of.
func (e *Engine) Traits() kvstore.Traits {
	traits := kvstore.Traits{Name: "memcached", Lossy: true, MaxName: maxName, MaxValue: 1<<20 - 1<<10, ServerClock: e.clock != nil}
	if e.clock != nil {
		traits.Skew = 2 * e.clock.Error()
	}
	return traits
}
