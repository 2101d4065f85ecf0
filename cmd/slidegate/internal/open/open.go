package open

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/connect"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// Options configures a store. The zero value is valid.
type Options struct {
	// Timeout is how long a decision may take before its failure mode decides; 0 means 100ms. It does not apply to memory:, which
	// answers immediately.
	Timeout time.Duration
	// ProbeEvery is how often a charge is written to find out whether the store can decide; 0 means a second.
	ProbeEvery time.Duration
	// Instances is how many processes share the limits: in failure mode local, each admits its share. 0 means 1.
	Instances int
	// RefusalAge is how long a refusal may be remembered in this process; 0 means a second, negative means not at all. For that long,
	// a client may still be refused after another process has refunded units or reset its key.
	RefusalAge time.Duration
	// Memory is the store to use for memory:, such as one restored from a file. nil means a new one.
	Memory *memstore.Store
	// Watch makes Health report an outage also while no request calls the store.
	Watch bool
	// Require makes Open return an error if the store cannot be reached, or if no charge can be written to it.
	Require bool
	// MeterProvider receives the metrics of the stores; nil disables them, and does not fall back to the global provider.
	MeterProvider metric.MeterProvider
	// Logger receives a line when the store is connected, and when an outage begins and ends; nil disables logging.
	Logger *slog.Logger
	// Modes returns a text for the log: the failure modes that decide during an outage. nil means that they are not named.
	Modes func() string
}

// Opened is a store with its layers. Call Close when done. It is safe for concurrent use.
type Opened struct {
	// Store is the store with its layers. Its limits have the failure mode local; store.In returns a view for another one.
	Store store.Store
	// Memory is the store itself if it is in memory, for callers that save its state across restarts; otherwise nil.
	Memory *memstore.Store

	layers     *stack.Store
	connection *connect.Connection // nil for a store in memory, and offline
	close      []func() error      // called in reverse order
}

// Health returns nil if the store decides, and otherwise why not: then failure modes do. With Options.Watch, a charge was written to the
// store within the last Options.ProbeEvery.
func (o *Opened) Health() error {
	if err := o.Err(); err != nil {
		return err // before a probe has found out
	}
	return o.layers.Health()
}

// Err returns why the store could not be connected yet, or nil if it was.
func (o *Opened) Err() error {
	if o.connection == nil {
		return nil
	}
	return o.connection.Err()
}

// Close closes the connections, and waits for background work. The store must not be used afterwards.
func (o *Opened) Close() error {
	var errs []error
	for i := len(o.close) - 1; i >= 0; i-- {
		errs = append(errs, o.close[i]())
	}
	o.close = nil
	return errors.Join(errs...)
}

// Open opens the store at url; "" means memory:. It returns an error if the URL or the options are invalid, or if the server refuses
// the credentials, the role or the database. A store that is down is an error only with Options.Require; see Err and Health. The context
// applies only to Open itself.
func Open(ctx context.Context, url string, opts Options) (*Opened, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Modes == nil {
		opts.Modes = func() string { return "failure modes" }
	}
	o := &Opened{}
	if err := o.open(ctx, url, &opts); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *Opened) open(ctx context.Context, url string, opts *Options) error {
	if isMemory(url) {
		return o.openMemory(url, opts)
	}
	driver, err := driverOf(withTimeout(url, opts.Timeout))
	if err != nil {
		return err
	}
	if opts.Require {
		err = try(ctx, driver, opts.Logger)
	}
	if err == nil {
		o.connection, err = connect.Connect(ctx, driver, opts.Logger)
	} else if driver.Close != nil {
		driver.Close()
	}
	if err != nil {
		return invalid("URL", err)
	}
	o.close = append(o.close, o.connection.Close)
	return o.putLayers(o.connection, opts)
}

// tryTimeout is how long Open waits for a required store.
const tryTimeout = 5 * time.Second

// try connects to a store and charges a key of its own, as the failure layer does regularly, to find out whether the store can decide.
func try(ctx context.Context, driver *connect.Driver, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	name := driver.Offline.Traits().Name
	link, err := driver.Connect(ctx, log)
	switch {
	case errors.Is(err, store.ErrRefused):
		return fmt.Errorf("%s: %w", name, connect.Advise(err))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: did not answer in time: %w; is this its address, and is it running?", name, err)
	case err != nil:
		return fmt.Errorf("%s: cannot be used: %w", name, err)
	}
	defer link.Close()
	limiter, err := slidegate.New(slidegate.Namespace(link.Store, healthNamespace),
		slidegate.Limit{Quota: 1, Window: 10 * time.Second, Algorithm: slidegate.FixedWindow})
	if err != nil {
		return err
	}
	if _, err = limiter.Charge(ctx, "start", 1); err != nil {
		return fmt.Errorf("%s: no charge can be written: %w", name, err)
	}
	return nil
}

// healthNamespace is the namespace of charges that only try the store; package failure uses it too.
const healthNamespace = "slidegate/health"

// OpenOffline is Open without a connection: the result reports which limits the store supports, and decides nothing. It is for
// checking a configuration. Call Close when done.
func OpenOffline(url string) (*Opened, error) {
	opts := Options{Logger: slog.New(slog.DiscardHandler)}
	if isMemory(url) {
		return Open(context.Background(), url, opts)
	}
	driver, err := driverOf(url)
	if err != nil {
		return nil, err
	}
	if driver.Close != nil {
		driver.Close()
	}
	o := &Opened{}
	o.layers, err = stack.New(driver.Offline, stack.Options{})
	o.Store = o.layers
	return o, err
}
