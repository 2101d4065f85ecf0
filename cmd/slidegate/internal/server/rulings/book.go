package rulings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
)

const (
	readEvery   = time.Second // so that all instances apply a change within two seconds
	readTimeout = time.Second
	// changeTimeout is how long the store may take to make a change or to return the log.
	changeTimeout = 5 * time.Second
	staleAfter    = time.Hour // rulings are removed this long after their end, since the clocks of instances may differ
	maxStale      = 100       // the maximum number removed with one change
)

// Options configures a Book. Resolve is required.
type Options struct {
	// Resolve checks a new ruling and fills in what depends on its policy: the policy's name, and the key as it is stored,
	// which names the same clients as the text that the operator wrote.
	// For the kind Clear, nothing else matters. It may return a FieldError.
	Resolve func(*Ruling) error
	// Reach returns which keys a new ruling is about. If Reach is nil, that is left out of responses.
	Reach func(context.Context, *Ruling) Reach
	// Note returns why a ruling has no effect, or "" if it has one. If Note is nil, there are no notes.
	Note func(*Ruling) string
	// Transient says that the keeper loses its rulings when the process ends.
	Transient bool
	// OnChange is called with every new table, one call at a time, before Change returns and before the first Read
	// returns. It must put the table into force.
	OnChange func(*Table)
	// Logger receives every change made through this Book, and when reading rulings begins to fail and works again; nil
	// discards the log. It never receives keys.
	Logger *slog.Logger
	// MeterProvider receives the metrics; nil disables them.
	MeterProvider metric.MeterProvider
}

// Book holds the rulings in force. It reads the stored rulings periodically, so that all instances that share a store
// apply a change made through any of them. While they cannot be read, those read last stay in force. It is safe for
// concurrent use. The zero value is not usable; call New.
type Book struct {
	keeper  Keeper
	opts    Options
	table   atomic.Pointer[Table]
	metrics metric.Registration

	mu      sync.Mutex // held while the table is read and put into force
	version int64
	failing bool
	read    atomic.Int64 // time of the last read, in Unix microseconds; 0 before the first
}

// New returns a book of the rulings of a keeper. It does not read them yet.
func New(keeper Keeper, opts Options) (*Book, error) {
	if keeper == nil || opts.Resolve == nil {
		return nil, errors.New("rulings: keeper and Resolve must not be nil")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Book{keeper: keeper, opts: opts, version: -1}
	return b, b.measure()
}

// Table returns the rulings in force. It may contain rulings that have ended; Table.Find ignores them.
func (b *Book) Table() *Table { return b.table.Load() }

// Run reads the stored rulings periodically until ctx ends.
func (b *Book) Run(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = b.Read(ctx) // Read logs the error
		}
	}
}

// Read reads the stored rulings and puts them into force, if they have changed.
func (b *Book) Read(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	all, version, err := b.keeper.Load(limited, b.version)
	if err == nil && version == 0 && b.version > 0 {
		all, version, err = b.restoreLocked(limited)
	}
	if err != nil {
		if !b.failing && ctx.Err() == nil {
			b.failing = true
			b.opts.Logger.Warn("rulings cannot be read; those read last stay in force", slog.Any("error", err))
		}
		return fmt.Errorf("rulings: %w", err)
	}
	if b.failing {
		b.failing = false
		b.opts.Logger.Info("rulings can be read again")
	}
	b.read.Store(time.Now().UnixMicro())
	if version != b.version {
		b.version = version
		b.setTableLocked(NewTable(all))
	}
	return nil
}

// restoreLocked writes the rulings in force back to a store that has lost everything, such as a restarted Redis without
// persistence: keeping a client blocked matters more than matching the empty store. Several instances may do so
// concurrently.
func (b *Book) restoreLocked(ctx context.Context) ([]Ruling, int64, error) {
	lost := b.Table().InForce(time.Now())
	for _, r := range lost {
		if err := b.keeper.Apply(ctx, r, nil); err != nil {
			return nil, 0, err
		}
	}
	b.opts.Logger.Warn("the store had lost its rulings; those in force were stored again", slog.Int("rulings", len(lost)))
	return b.keeper.Load(ctx, -1)
}

// setTableLocked puts a table into force.
func (b *Book) setTableLocked(table *Table) {
	b.table.Store(table)
	if b.opts.OnChange != nil {
		b.opts.OnChange(table)
	}
}

// Change puts a ruling into force: it is stored first, and in force here when Change returns. It returns the ruling as
// stored, and the one that it replaces, nil if there was none. A FieldError says which field is invalid.
func (b *Book) Change(ctx context.Context, r Ruling) (stored Ruling, before *Ruling, err error) {
	now := time.Now()
	if err := r.check(now); err != nil {
		return r, nil, err
	}
	r.Limits = append([]string(nil), r.Limits...) // Resolve modifies it
	if err := b.opts.Resolve(&r); err != nil {
		return r, nil, err
	}
	if !r.Until.IsZero() {
		r.Until = r.Until.UTC().Round(time.Microsecond)
	}
	before, err = b.apply(ctx, &r, now)
	return r, before, err
}

// End ends the ruling about a key. If kind is not empty, the ruling must have that kind; Override stands for all kinds
// but Block. Who and Why of change are logged. It returns the ruling that was in force. The error wraps ErrNone if
// there was none, and is a FieldError if it has another kind.
func (b *Book) End(ctx context.Context, change Ruling, kind Kind) (ended *Ruling, err error) {
	now := time.Now()
	change.Kind, change.Limits, change.Until = Clear, nil, time.Time{}
	if err := change.checkNames(); err != nil {
		return nil, err
	}
	if err := b.Read(ctx); err != nil { // another instance may have just changed it
		return nil, err
	}
	name := change // the policy may be gone
	if err := b.opts.Resolve(&name); err == nil {
		change.Policy, change.Key = name.Policy, name.Key
	}
	found := b.Table().Find(change.Policy, change.Key, now)
	switch {
	case found == nil:
		return nil, fmt.Errorf("rulings: %w", ErrNone)
	case kind == Override && found.Kind != Block:
	case kind != "" && found.Kind != kind:
		return nil, fieldError("kind", "the ruling about this key is not %s but %s", kind, found.Kind)
	}
	return b.apply(ctx, &change, now)
}

// apply stores a change and puts it into force here. It returns the ruling that was in force before.
func (b *Book) apply(ctx context.Context, change *Ruling, now time.Time) (before *Ruling, err error) {
	change.At = now.UTC().Round(time.Microsecond)
	limited, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	table := b.Table()
	before = table.Find(change.Policy, change.Key, now)
	err = b.keeper.Apply(limited, *change, stale(table, now.Add(-staleAfter)))
	if errors.Is(err, ErrFull) {
		err = b.keeper.Apply(limited, *change, stale(table, now))
	}
	if err != nil {
		return before, err
	}
	b.log(change)
	if b.Read(ctx) != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.setTableLocked(b.Table().with(*change)) // the version is kept, so that the table is read again
	}
	return before, nil
}

func (b *Book) log(change *Ruling) {
	until := "" // it never ends
	if !change.Until.IsZero() {
		until = change.Until.Format(time.RFC3339)
	}
	b.opts.Logger.Info("ruling changed", slog.String("kind", string(change.Kind)), slog.String("policy", change.Policy),
		slog.String("who", change.Who), slog.String("why", change.Why), slog.String("until", until))
}

// stale returns rulings that had ended by the given time.
func stale(t *Table, at time.Time) []Ruling {
	ended := t.filter(func(r *Ruling) bool { return !r.InForce(at) })
	return ended[:min(len(ended), maxStale)]
}

// Log returns the last n changes, newest first.
func (b *Book) Log(ctx context.Context, n int) ([]Ruling, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	return b.keeper.Log(ctx, min(n, MaxLog))
}
