package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// Options are what a store has besides its URL. The zero value is good.
type Options struct {
	// Timeout is how long a decision may take before its failure mode answers; 0 means 100ms. It does not apply to
	// memory:, which answers at once.
	Timeout time.Duration
	// ProbeEvery is how often a store that failed is tried again; 0 means a second, or Timeout if that is longer.
	ProbeEvery time.Duration
	// Failures is how many calls in a row must fail until the store is left alone; 0 means 3, so that a single slow
	// answer does not bring the failure modes on.
	Failures int
	// Instances is how many processes share the limits: in failure mode local, each admits its part. 0 means 1.
	Instances int
	// Optimism is how many units of a key failure mode optimistic admits; 0 means policy.DefaultOptimism.
	Optimism int64
	// DenyAge is how long a refusal may be remembered in this process; 0 means a second, negative means not at all. For
	// so long a client may be refused after another process has given units back or reset its key.
	DenyAge time.Duration
	// MaxBytes is how much memory keys take in this process at most: of memory:, unless its URL says, and of failure mode
	// local. 0 means 256 MiB.
	MaxBytes int64
	// Memory is the store to use for memory:, such as one that was restored from a file. nil means a new one.
	Memory *memstore.Store
	// MeterProvider gets the metrics of the stores; nil means that they are not observed, not even by the global one.
	MeterProvider metric.MeterProvider
	// Logger is told when the store is connected, and when an outage begins and ends; nil means nobody is.
	Logger *slog.Logger

	sketch bool // do not connect
}

// Opened is a store with its layers. Close it. It is safe for concurrent use.
type Opened struct {
	gate.Stores
	// Unanswered refuses as Closed does when the store cannot answer, for listeners that make an error of it, such as Envoy's. In
	// logs and metrics its failure mode is called error.
	Unanswered store.Store
	// Memory is the store itself if it is in memory, for whoever keeps its state over a restart; else nil.
	Memory *memstore.Store

	// KeepKey keeps a key in the store, for all who share it: it returns the one that is there, which is the proposed one if
	// there was none. It is nil if the store is in memory, which nobody shares.
	KeepKey func(ctx context.Context, proposed []byte) ([]byte, error)

	// Rulings keeps what operators decide about single keys, for all who share the store. It is nil if the store is in memory.
	Rulings rulings.Keeper

	ping  func(context.Context) error
	close []func() error // the last first
}

// ErrDown is wrapped by the errors of Ping and of decisions before a store was connected to for the first time.
var ErrDown = errors.New("the store is not connected yet")

// Ping asks the store for a sign of life, past all layers. It is for a readiness check: a service whose store is down still
// answers, by its failure modes.
func (o *Opened) Ping(ctx context.Context) error { return o.ping(ctx) }

// Close ends the connections, and waits for what runs in the background. Nothing may be asked any more.
func (o *Opened) Close() error {
	var errs []error
	for i := len(o.close) - 1; i >= 0; i-- {
		errs = append(errs, o.close[i]())
	}
	o.close = nil
	return errors.Join(errs...)
}

// Open opens the store at url; "" means memory:. It returns an error if the URL or the options are wrong, and not if the
// store cannot be reached: see Ping. The context is for opening alone, and bounds nothing that runs later.
func Open(ctx context.Context, url string, opts Options) (*Opened, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("stores: %w", err)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	o := &Opened{}
	err := o.open(url, &opts)
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// Sketch is Open without a connection: what it returns knows which limits the store takes, and decides nothing. It is for
// whoever checks a configuration. Close it.
func Sketch(url string) (*Opened, error) {
	opts := Options{Logger: slog.New(slog.DiscardHandler), sketch: true}
	o := &Opened{}
	if err := o.open(url, &opts); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *Opened) open(url string, opts *Options) error {
	scheme, _, _ := strings.Cut(url, ":")
	var store store.Store
	calls := 0 // to the store at once: as many as coalesce thinks right
	switch strings.ToLower(scheme) {
	case "", "memory":
		return o.openMemory(url, opts)
	case "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel":
		target, err := parseRedis(url)
		if err != nil {
			return err
		}
		store, err = o.connectLater("redis", target.sketch, target.connect, opts)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(strings.ToLower(scheme), "+cluster") {
			calls = 2 // a Redis decides one call at a time: one that it decides, and one that waits for it
		}
	case "postgres", "postgresql":
		target, err := parsePostgres(url, opts)
		if err != nil {
			return err
		}
		if target.mayBePlain() {
			opts.Logger.Warn("the connection to PostgreSQL may be plain text; add sslmode=verify-full to the store's URL", slog.String("store", "postgres"))
		}
		store, err = o.connectLater("postgres", target.sketch, target.connect, opts)
		if err != nil {
			return err
		}
		calls = 1 // two that have a busy key in common wait for one another; one decides for all who ask
	case "nats", "tls":
		target, err := parseNATSOrEmbedded(url, opts)
		if err != nil {
			return err
		}
		if target.embedded != nil {
			o.close = append(o.close, target.embedded.close) // after all that is asked of it
		}
		if store, err = o.connectLater("nats", target.sketch, target.connect, opts); err != nil {
			return err
		}
		calls = noCoalescing
	case "memcached":
		target, err := parseMemcached(url, opts)
		if err != nil {
			return err
		}
		if store, err = o.connectLater("memcached", target.sketch, target.connect, opts); err != nil {
			return err
		}
		o.KeepKey, o.Rulings = nil, nil // what a cache forgets must not be kept in it
		calls = noCoalescing
	default:
		return unknownScheme(scheme)
	}
	return o.putLayers(store, calls, opts)
}
