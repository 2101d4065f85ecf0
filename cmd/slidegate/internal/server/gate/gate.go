package gate

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/latency"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
)

// ErrPolicy is wrapped by the error of an ask that names a policy that there is not.
var ErrPolicy = errors.New("unknown policy")

// ErrKey is wrapped by the error of an ask whose key cannot be one.
var ErrKey = errors.New("invalid key")

// Stores are the stores that policies use, by what is to happen when the store cannot answer.
type Stores = policy.Stores

// Options are what a Gate has besides its policies and stores. The zero value is good.
type Options struct {
	// Logger gets a line for every reload and for every policy that one changed; nil means none are written. Keys are
	// never in it.
	Logger *slog.Logger
	// MeterProvider gets the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
	// Requests says that CheckRequest is used. Policies that a request faces together and the store cannot decide together
	// are then an error from New and Reload, as they are wherever a policy has a Match.
	Requests bool
	// OnRefused is called with every key that was refused, or would have been where a policy only watches. It must be quick
	// and safe for concurrent use, and must not keep the key without a copy.
	OnRefused func(policy, key string)
	// Latency gets how long decisions take, by door and policy; nil means that they are not timed.
	Latency *latency.Histograms
	// Signer signs reservations, and Settle refuses those without its signature; nil leaves them unsigned, for clients that
	// are trusted not to invent any.
	Signer Signer
}

// Gate decides by policies. It is safe for concurrent use. The zero value is not usable; New makes it.
type Gate struct {
	stores  Stores
	opts    Options
	metrics *metrics
	every   uint32 // of how many decisions one is timed
	now     atomic.Pointer[snapshot]
	batches sync.Pool // of *[]policy.Part

	ruled     atomic.Pointer[rulings.Table]
	reloading sync.Mutex // also held while rulings change
}

// New returns a gate for the policies of file. A limit that the stores cannot keep, or a key that a live request does not
// have, is an error.
func New(file *config.File, stores Stores, opts Options) (*Gate, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gate{opts: opts, stores: stores, every: timedEvery(stores)}
	g.batches.New = func() any { return new([]policy.Part) }
	var err error
	if g.metrics, err = newMetrics(opts.MeterProvider, func() int { return len(g.Policies()) }); err != nil {
		return nil, err
	}
	g.metrics.onRefused = opts.OnRefused
	first, err := g.build(file, nil)
	if err != nil {
		return nil, errors.Join(err, g.metrics.registration.Unregister())
	}
	first.prepare(stores)
	g.now.Store(first)
	return g, nil
}

// Close ends the reports of metrics and gives back the room that the limits have in the stores. It does not close the stores, and decisions can still be made.
func (g *Gate) Close() error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	g.now.Load().release()
	if err := g.metrics.registration.Unregister(); err != nil {
		return fmt.Errorf("gate: MeterProvider: %w", err)
	}
	return nil
}

// Policies returns the names of the policies in the order of the file.
func (g *Gate) Policies() []string {
	if s := g.now.Load(); s != nil {
		return slices.Clone(s.names)
	}
	return nil
}
