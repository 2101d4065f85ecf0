package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

var (
	//go:embed fast.lua
	fastText string
	//go:embed windows.lua
	windowsText string
	//go:embed logs.lua
	logsText string
	//go:embed once.lua
	onceText string
	//go:embed decide.lua
	decideText string
)

// script is the concatenation of the files: the others do not repeat what the first decides.
var script = newScript(fastText + "\n" + windowsText + "\n" + logsText + "\n" + onceText + "\n" + decideText)

// Options configures a Store. The zero value is valid.
type Options struct {
	// Prefix begins the names of all keys; empty means "slidegate".
	Prefix string
	// Grace is how long a state is kept after it no longer matters; 0 means one second. It has to cover the difference
	// between the clocks of a server and of a replica that takes over.
	Grace time.Duration
	// Now replaces the server's clock, for tests and replays; states then never expire.
	Now func() rule.Micros
}

// Store keeps state in Redis. It is safe for concurrent use. The zero value is not usable; call New.
type Store struct {
	store.Registry // the limits of the limiters over this store

	conn    Conn
	workers *workers
	cluster bool
	opts    Options
	grace   int64 // in milliseconds, -1 for forever
	names   shape.Names
	ahead   atomic.Int64 // how many microseconds the server's clock is ahead, if it was seen to be outside the calendar periods that were sent
	nodes   nodes
}

const (
	maxCharges = 64          // per request
	maxCall    = 512         // work per call, see internal/workload: Redis does nothing else during a call
	maxTurn    = 2 * maxCall // work that is sent together: Redis carries it out in a row
)

// New returns a store over a client, which the caller has to close. Every process must reach the same server, cluster or
// master through it: a wrapper that distributes keys over servers by itself is not supported, and neither are several
// independent servers with ForceSingleClient and ShuffleInit. A limit would then hold once per server.
func New(client rueidis.Client, opts Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("redisstore: client: must not be nil; use rueidis.NewClient")
	}
	return NewWithConn(rueidisConn{client}, opts)
}

// NewWithConn returns a store over any client that has a Conn.
func NewWithConn(conn Conn, opts Options) (*Store, error) {
	if conn == nil {
		return nil, errors.New("redisstore: conn: must not be nil")
	}
	return newStore(conn, conn.Cluster(), opts)
}

// newStore is NewWithConn, also without a connection: only Check and Traits of such a store may be called.
func newStore(conn Conn, cluster bool, opts Options) (*Store, error) {
	switch {
	case opts.Grace < 0:
		return nil, fmt.Errorf("redisstore: grace: must not be negative, got %v", opts.Grace)
	case strings.ContainsFunc(opts.Prefix, func(r rune) bool { return r <= ' ' || r > '~' || r == '{' || r == '}' }):
		return nil, fmt.Errorf("redisstore: prefix: %q: use visible ASCII without spaces, and without braces, which determine the hash slot", opts.Prefix)
	}
	if opts.Prefix == "" {
		opts.Prefix = "slidegate"
	}
	if opts.Grace == 0 {
		opts.Grace = time.Second
	}
	s := &Store{conn: conn, workers: &workers{conn: conn}, cluster: cluster, opts: opts, grace: -1}
	if opts.Now == nil {
		s.grace = (opts.Grace + time.Millisecond - 1).Milliseconds()
	}
	return s, nil
}

// Traits returns the traits of the store.
func (s *Store) Traits() store.Traits {
	traits := store.Traits{Name: "redis", ServerClock: true, MaxCharges: maxCharges, RoundTrips: 1}
	if !s.cluster { // a single server does one thing at a time: while it works on one call, the next is on its way
		traits.Calls = 2
	}
	return traits
}

// maxBucketQuota is the largest quota for which the script's products are exact for a token bucket.
const maxBucketQuota = 1<<48 - 1

// Check rejects a limit for which the script would not be exact.
func (s *Store) Check(limit *store.Limit) error {
	if l := limit.Rule(); l.Algorithm == rule.TokenBucket && l.Quota > maxBucketQuota {
		return fmt.Errorf("redisstore: %w: quota: a token bucket in Redis takes at most %d, not %d",
			store.ErrUnsupported, int64(maxBucketQuota), l.Quota)
	}
	return nil
}

// Apply decides a batch of requests in one call of the script; in a cluster, in one call per hash slot, all sent
// together. A batch of more than 512 keys, or of fewer whose limits are long logs, takes several calls, of which those with
// a key in common are sent one at a time, and only as many together as Redis carries out in a few milliseconds.
//
// If the server's time lies outside the calendar periods that were sent with a call, nothing is decided, and the call
// is sent once more with other periods.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	if err := ctx.Err(); err != nil {
		return batches.FailAll(batch, err)
	}
	serverTime, err := s.decide(ctx, batch)
	if err != nil {
		return batches.FailAll(batch, err)
	}
	if serverTime != 0 {
		s.ahead.Store(int64(serverTime - s.clock()))
		s.decideAgain(ctx, batch)
	}
	return batches.FirstError(batch)
}

// decide sends a batch once. It returns the server's time if that lies outside the calendar periods that were sent:
// some requests then have errOutside. An error applies to all requests.
func (s *Store) decide(ctx context.Context, batch []store.Request) (serverTime rule.Micros, err error) {
	t := roundTrips.Get().(*roundTrip)
	t.plan(s, batch)
	if err := s.run(ctx, t); err != nil {
		s.refreshNodes(refreshAfter)
		return 0, err
	}
	t.readReplies(batch)
	if s.cluster && t.anyFailed() {
		s.refreshNodes(refreshAfter)
	}
	serverTime = t.serverTime
	t.recycle()
	return serverTime, nil
}

// decideAgain sends the requests that have errOutside once more.
func (s *Store) decideAgain(ctx context.Context, batch []store.Request) {
	var indexes []int
	var again []store.Request
	for i := range batch {
		if errors.Is(batch[i].Err, errOutside) {
			indexes, again = append(indexes, i), append(again, batch[i])
		}
	}
	if _, err := s.decide(ctx, again); err != nil {
		_ = batches.FailAll(again, err) // the same error for all
	}
	for i, index := range indexes {
		batch[index].Err = again[i].Err
	}
}

// prefix returns the part of a key's name that belongs to a limit.
func (s *Store) prefix(limit *store.Limit) string {
	return s.names.Of(limit.ID(), func() string { return limitPrefix(s.opts.Prefix, limit) })
}

// clock returns the time by which calendar periods are chosen.
func (s *Store) clock() rule.Micros {
	if s.opts.Now == nil {
		return rule.Micros(time.Now().UnixMicro())
	}
	return s.opts.Now()
}

// now returns the time for the script, or -1 for the server's clock.
func (s *Store) now() rule.Micros {
	if s.opts.Now == nil {
		return -1
	}
	return s.opts.Now()
}
