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
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rulings"
)

// Errors about a Request are texts for the client that sent it, so they do not begin with the name of this package.
var (
	// ErrPolicy is wrapped by the error of a Request that names an unknown policy.
	ErrPolicy = errors.New("unknown policy")
	// ErrNoPolicy is wrapped by the error of a Request that names no policy, where there are several and none is the default.
	ErrNoPolicy = errors.New("no policy is named")
)

// ErrKey is wrapped by the error of a Request with an invalid key.
var ErrKey = errors.New("invalid key")

// Stores holds the stores that policies use, one per failure mode.
type Stores = policy.Stores

// Options configures a Gate. The zero value is valid.
type Options struct {
	// Logger receives a line for every reload and for every policy that a reload changed; nil discards them. It never
	// receives keys.
	Logger *slog.Logger
	// MeterProvider receives the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
	// Requests says that CheckRequest is used. New and Reload then reject policies that apply to the same request but
	// that the store cannot decide together, as they always do for policies with a Match.
	Requests bool
	// OnRefused is called with every key that was denied, or would have been if its policy were not in shadow mode. It
	// must be fast and safe for concurrent use, and must copy the key to keep it.
	OnRefused func(policy, key string)
	// Latency records how long decisions take, by listener and policy; nil disables timing.
	Latency *latency.Histograms
	// Signer signs reservations, and Settle rejects reservations without its signature; nil leaves them unsigned, for
	// clients that are trusted not to forge any.
	Signer Signer
}

// Gate decides requests by policies. It is safe for concurrent use. The zero value is not usable; call New.
type Gate struct {
	stores         Stores
	opts           Options
	metrics        *metrics
	sampleInterval uint32 // one in this many decisions is timed
	current        atomic.Pointer[snapshot]
	batches        sync.Pool // of *[]policy.Part

	ruled     atomic.Pointer[rulings.Table]
	reloading sync.Mutex // also held while rulings change
}

// New returns a gate for the policies of file. It rejects limits that the stores do not support and keys that a live
// request does not have.
func New(file *config.File, stores Stores, opts Options) (*Gate, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gate{opts: opts, stores: stores, sampleInterval: sampleInterval(stores)}
	g.batches.New = func() any { return new([]policy.Part) }
	var err error
	if g.metrics, err = newMetrics(opts.MeterProvider, func() int { return len(g.Policies()) }); err != nil {
		return nil, err
	}
	g.metrics.onRefused = opts.OnRefused
	if opts.Requests {
		g.CountUnmatched(listenerNames[Proxy], 0) // so that the first one is an increase, not a new series
	} else {
		g.CountUnmatched(listenerNames[HTTP], 0)
	}
	first, err := g.build(file, nil)
	if err != nil {
		return nil, errors.Join(err, g.metrics.registration.Unregister())
	}
	first.prepare(stores)
	g.current.Store(first)
	return g, nil
}

// Close stops reporting metrics and releases the capacity that the stores hold for the limits. It does not close the
// stores, and the gate still decides.
func (g *Gate) Close() error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	g.current.Load().release()
	if err := g.metrics.registration.Unregister(); err != nil {
		return fmt.Errorf("gate: MeterProvider: %w", err)
	}
	return nil
}

// Policies returns the names of the policies in the order of the file.
func (g *Gate) Policies() []string {
	if s := g.current.Load(); s != nil {
		return slices.Clone(s.names)
	}
	return nil
}
