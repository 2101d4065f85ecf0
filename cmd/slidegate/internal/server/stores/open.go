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
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// Options configures a store. The zero value is valid.
type Options struct {
	// Timeout is how long a decision may take before its failure mode decides; 0 means 100ms. It does not apply to memory:, which
	// answers immediately.
	Timeout time.Duration
	// ProbeEvery is how often a store that failed is tried again; 0 means a second, or Timeout if that is longer.
	ProbeEvery time.Duration
	// Failures is how many consecutive calls must fail before the store is no longer called; 0 means 3, so that a single slow
	// reply does not trigger the failure modes.
	Failures int
	// Instances is how many processes share the limits: in failure mode local, each admits its share. 0 means 1.
	Instances int
	// Optimism is how many units of a key failure mode optimistic admits; 0 means policy.DefaultOptimism.
	Optimism int64
	// DenyAge is how long a refusal may be remembered in this process; 0 means a second, negative means not at all. For that long,
	// a client may still be refused after another process has refunded units or reset its key.
	DenyAge time.Duration
	// MaxBytes bounds the memory for keys in this process: in memory:, unless its URL sets a bound, and in failure mode local. 0
	// means 256 MiB.
	MaxBytes int64
	// Memory is the store to use for memory:, such as one restored from a file. nil means a new one.
	Memory *memstore.Store
	// MeterProvider receives the metrics of the stores; nil disables them, and does not fall back to the global provider.
	MeterProvider metric.MeterProvider
	// Logger receives a line when the store is connected, and when an outage begins and ends; nil disables logging.
	Logger *slog.Logger

	offline bool // do not connect
}

// Opened is a store with its layers. Call Close when done. It is safe for concurrent use.
type Opened struct {
	gate.Stores
	// Unanswered refuses like Closed when the store does not answer. It is for listeners that report an error in that case, such
	// as Envoy's. In logs and metrics, its failure mode is called error.
	Unanswered store.Store
	// Memory is the store itself if it is in memory, for callers that save its state across restarts; otherwise nil.
	Memory *memstore.Store

	ping  func(context.Context) error
	close []func() error // called in reverse order
}

// ErrDown is wrapped by the errors of Ping and of decisions before the first connection to a store.
var ErrDown = errors.New("the store is not connected yet")

// Ping pings the store, bypassing all layers. It is for readiness checks: a service whose store is down still decides, by its
// failure modes.
func (o *Opened) Ping(ctx context.Context) error { return o.ping(ctx) }

// Close closes the connections, and waits for background work. The store must not be used afterwards.
func (o *Opened) Close() error {
	var errs []error
	for i := len(o.close) - 1; i >= 0; i-- {
		errs = append(errs, o.close[i]())
	}
	o.close = nil
	return errors.Join(errs...)
}

// Open opens the store at url; "" means memory:. It returns an error if the URL or the options are invalid, but not if the store
// cannot be reached: see Ping. The context applies only to Open itself.
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

// OpenOffline is Open without a connection: the result reports which limits the store supports, and decides nothing. It is for
// checking a configuration. Call Close when done.
func OpenOffline(url string) (*Opened, error) {
	opts := Options{Logger: slog.New(slog.DiscardHandler), offline: true}
	o := &Opened{}
	if err := o.open(url, &opts); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *Opened) open(url string, opts *Options) error {
	scheme, _, _ := strings.Cut(url, ":")
	var store store.Store
	calls := 0 // concurrent calls to the store; 0 means the default of coalesce
	switch strings.ToLower(scheme) {
	case "", "memory":
		return o.openMemory(url, opts)
	case "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel":
		target, err := parseRedis(url)
		if err != nil {
			return err
		}
		store, err = o.connectLater("redis", target.offline, target.connect, opts)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(strings.ToLower(scheme), "+cluster") {
			calls = 2 // Redis handles one call at a time: one in progress, and one waiting
		}
	case "postgres", "postgresql":
		target, err := parsePostgres(url, opts)
		if err != nil {
			return err
		}
		if target.mayBePlaintext() {
			opts.Logger.Warn("the connection to PostgreSQL may be plain text; add sslmode=verify-full to the store's URL", slog.String("store", "postgres"))
		}
		store, err = o.connectLater("postgres", target.offline, target.connect, opts)
		if err != nil {
			return err
		}
		calls = 1 // two calls that share a busy key wait for each other; one decides for all
	case "nats", "tls":
		target, err := parseNATSOrEmbedded(url, opts)
		if err != nil {
			return err
		}
		if target.embedded != nil {
			o.close = append(o.close, target.embedded.close) // after everything that uses it
		}
		if store, err = o.connectLater("nats", target.offline, target.connect, opts); err != nil {
			return err
		}
		calls = noCoalescing
	case "memcached":
		target, err := parseMemcached(url, opts)
		if err != nil {
			return err
		}
		if store, err = o.connectLater("memcached", target.offline, target.connect, opts); err != nil {
			return err
		}
		calls = noCoalescing
	default:
		return unknownScheme(scheme)
	}
	return o.putLayers(store, calls, opts)
}
