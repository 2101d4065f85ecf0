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
	readEvery   = time.Second // so that all instances obey within two
	readTimeout = time.Second
	// changeTimeout is how long the store may take for a change, or to tell the log.
	changeTimeout = 5 * time.Second
	staleAfter    = time.Hour // after their end, rulings are removed: the clocks of instances need not agree
	mostStale     = 100       // that are removed with one change
)

// Options are what a Book has beside its keeper. Resolve is required.
type Options struct {
	// Resolve checks a new ruling and fills in what depends on its policy: the policy's name, and the key as requests have it. Of one
	// of the kind Clear, nothing else matters. It may return a FieldError.
	Resolve func(*Ruling) error
	// Note says what keeps a ruling from being carried out, "" if nothing does. nil says nothing.
	Note func(*Ruling) string
	// OnChange is called with every new table, one after the other, before Change returns and before the first Read does. It must
	// put the table in force.
	OnChange func(*Table)
	// Logger is told of every change that is made here, and when rulings cannot be read any more and can be again; nil means nobody
	// is. Keys are never in it.
	Logger *slog.Logger
	// MeterProvider gets the metrics; nil means that there are none.
	MeterProvider metric.MeterProvider
}

// Book is the rulings in force: it reads again and again what is kept, so that all instances that share a store obey what one of them
// is told. While they cannot be read, those that were read last stay in force. It is safe for concurrent use. The zero value is not
// usable; New makes it.
type Book struct {
	keeper  Keeper
	opts    Options
	table   atomic.Pointer[Table]
	metrics metric.Registration

	mu      sync.Mutex // held while the table is read and put in force
	version int64
	failing bool
	read    atomic.Int64 // when it was last read, in Unix microseconds; 0 if it was not yet
}

// New returns a book of what a keeper has. Nothing is read yet.
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

// Table returns the rulings in force. Those that have ended may be in it: Table.Find leaves them out.
func (b *Book) Table() *Table { return b.table.Load() }

// Run reads what is kept again and again until ctx ends.
func (b *Book) Run(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = b.Read(ctx) // which logs it
		}
	}
}

// Read reads what is kept and puts it in force, if it has changed.
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
			b.opts.Logger.Warn("rulings cannot be read; those that were read last stay in force", slog.Any("error", err))
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
		b.putLocked(NewTable(all))
	}
	return nil
}

// restoreLocked writes the rulings in force back to a store that has lost everything, such as a Redis that keeps nothing on disk and
// was restarted: to block somebody is worth more than what the store forgot. Several instances may do so at once.
func (b *Book) restoreLocked(ctx context.Context) ([]Ruling, int64, error) {
	lost := b.Table().InForce(time.Now())
	for _, r := range lost {
		if err := b.keeper.Apply(ctx, r, nil); err != nil {
			return nil, 0, err
		}
	}
	b.opts.Logger.Warn("the store had lost its rulings; those that were in force are kept again", slog.Int("rulings", len(lost)))
	return b.keeper.Load(ctx, -1)
}

// putLocked puts a table in force.
func (b *Book) putLocked(table *Table) {
	b.table.Store(table)
	if b.opts.OnChange != nil {
		b.opts.OnChange(table)
	}
}

// Change puts a ruling in force: it is kept first, and obeyed here when Change returns. It returns the ruling as it is kept, and the
// one that it replaces, nil if there was none. A FieldError says what is wrong with it.
func (b *Book) Change(ctx context.Context, r Ruling) (made Ruling, before *Ruling, err error) {
	now := time.Now()
	if err := r.check(now); err != nil {
		return r, nil, err
	}
	r.Limits = append([]string(nil), r.Limits...) // Resolve writes to it
	if err := b.opts.Resolve(&r); err != nil {
		return r, nil, err
	}
	if !r.Until.IsZero() {
		r.Until = r.Until.UTC().Round(time.Microsecond)
	}
	before, err = b.apply(ctx, &r, now)
	return r, before, err
}

// End ends the ruling about a key. It has to be of the given kind, where Override stands for all but Block, unless kind is empty. Who and
// Why of the change say who ended it and why. It returns the ruling that was in force. The error wraps ErrNone if there was none, and is a FieldError if it is of
// another kind.
func (b *Book) End(ctx context.Context, change Ruling, kind Kind) (ended *Ruling, err error) {
	now := time.Now()
	change.Kind, change.Limits, change.Until = Clear, nil, time.Time{}
	if err := change.checkNames(); err != nil {
		return nil, err
	}
	if err := b.Read(ctx); err != nil { // another instance may have changed it a moment ago
		return nil, err
	}
	name := change // of a policy that may be gone
	if err := b.opts.Resolve(&name); err == nil {
		change.Policy, change.Key = name.Policy, name.Key
	}
	found := b.Table().Find(change.Policy, change.Key, now)
	switch {
	case found == nil:
		return nil, fmt.Errorf("rulings: %w", ErrNone)
	case kind == Override && found.Kind != Block:
	case kind != "" && found.Kind != kind:
		return nil, wrong("kind", "the ruling about this key is not of the kind %s, but %s", kind, found.Kind)
	}
	return b.apply(ctx, &change, now)
}

// apply has a change kept and puts it in force here. It returns the ruling that was in force before.
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
		b.putLocked(b.Table().with(*change)) // the version stays, so that it is read again
	}
	return before, nil
}

func (b *Book) log(change *Ruling) {
	until := "" // it has no end
	if !change.Until.IsZero() {
		until = change.Until.Format(time.RFC3339)
	}
	b.opts.Logger.Info("a ruling was changed", slog.String("kind", string(change.Kind)), slog.String("policy", change.Policy),
		slog.String("who", change.Who), slog.String("why", change.Why), slog.String("until", until))
}

// stale returns rulings that had ended at a time.
func stale(t *Table, at time.Time) []Ruling {
	ended := t.some(func(r *Ruling) bool { return !r.InForce(at) })
	return ended[:min(len(ended), mostStale)]
}

// Log returns the last n changes, the newest first.
func (b *Book) Log(ctx context.Context, n int) ([]Ruling, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	return b.keeper.Log(ctx, min(n, MaxLog))
}
