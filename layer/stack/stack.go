// Package stack puts the usual layers over a store, in the right order: calls that requests share (coalesce), refusals
// that are remembered (refusals), what decides when the store does not answer (failure), units leased in advance (lease), and
// observation. A shared store with a fallback takes two calls:
//
//	redis, err := redisstore.Open(ctx, url)
//	st, err := stack.New(redis, stack.Options{})
//
// A memstore answers at once, and gets no layers but observation; another store in process gets only what decides when it
// returns an error. The layers take about 2.5 MB from the start, so limiters over one store should share them.
//
// While the store does not answer, each process counts the same limits itself, unless Options.Failure or the limit's own mode
// says otherwise: N processes then admit up to N quotas together. Options.Instances divides the quotas among them. A view of
// the Store for limits in another mode is store.In(st, mode); all views share the layers, so one process finds an outage once.
// For logins and other limits that must hold, use store.FailClosed. docs/layers.md has what each layer promises and costs.
package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// ErrElsewhere is wrapped by errors about a reservation or slot that another process took while the store did not answer: it is
// settled there, or expires there. It wraps slidegate.ErrReservation.
var ErrElsewhere = failure.ErrElsewhere

// ErrUnavailable is wrapped by errors about a store that did not answer, along with the store's own error.
var ErrUnavailable = failure.ErrUnavailable

// Store is a store.Store with its layers. It is safe for concurrent use. The zero value is not usable; call New.
type Store struct {
	store.Store // the outermost layer

	one   store.SingleTaker             // the same
	local *memstore.Store               // of the failure layer; nil if New has put none
	close []func(context.Context) error // of the layers that New has put, from the inside out
}

// New puts layers over a store. Over a store that has them already it puts only observation, and the other options have no
// effect.
func New(st store.Store, opts Options) (*Store, error) {
	if st == nil {
		return nil, errors.New("stack: store: must not be nil; pass the store that decides, such as the result of redisstore.Open")
	}
	if err := opts.check(); err != nil {
		return nil, err
	}
	s := &Store{}
	st, err := s.putLayers(st, &opts)
	if err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	if opts.Observe != nil {
		observed, err := opts.Observe(st)
		if err != nil {
			return nil, fmt.Errorf("stack: Observe: %w", err)
		}
		if closer, ok := observed.(io.Closer); ok {
			s.close = append(s.close, func(context.Context) error { return closer.Close() })
		}
		st = observed
	}
	s.Store, s.one = st, store.Single(st)
	return s, nil
}

// putLayers puts over a store what it does not have, from the inside out.
func (s *Store) putLayers(st store.Store, opts *Options) (store.Store, error) {
	if _, layered := store.As[*failure.Store](st); layered {
		if opts.Failure != 0 {
			return nil, errors.New("the store has layers already, so Failure has no effect; for another mode use store.In(st, mode)")
		}
		return st, nil
	}
	_, memory := store.As[*memstore.Store](st)
	remote := st.Traits().RoundTrips > 0
	if !remote && memory {
		return st, nil
	}
	if mode := store.ModeOf(st); mode != 0 { // a view below the failure layer would hide the modes of views above it
		opts.Failure, st = cmp.Or(opts.Failure, mode), st.(store.Wrapper).Unwrap()
	}
	if remote && st.Traits().Calls >= 0 {
		st = coalesce.New(st, coalesce.Options{Gather: opts.Gather, Timeout: max(opts.Timeout, minShared)})
	}
	if remote && opts.RefusalAge >= 0 {
		st = refusals.New(st, refusals.Options{MaxAge: opts.RefusalAge})
	}
	st, err := s.putFailure(st, opts)
	if err == nil && remote {
		layer := lease.New(st, lease.Options{Timeout: min(max(opts.Timeout, minShared), time.Minute)})
		st, s.close = layer, append(s.close, layer.Close)
	}
	return st, err
}

// minShared is the least time that a call which several requests share may take, and one that leases units: the end of one
// caller's time is no reason to end it.
const minShared = time.Second

func (s *Store) putFailure(st store.Store, opts *Options) (store.Store, error) {
	local, err := memstore.New(memstore.Options{MaxBytes: opts.LocalBytes})
	if err != nil {
		return nil, fmt.Errorf("LocalBytes: %w", err)
	}
	layer := failure.New(st, failure.Options{
		Mode: opts.Failure, Local: local, Timeout: cmp.Or(opts.Timeout, defaultTimeout), ProbeEvery: opts.ProbeEvery, Instances: opts.Instances,
		Watch: opts.Watch, OnFallback: opts.OnFallback, OnChange: opts.OnChange,
	})
	s.local, s.close = local, append(s.close, func(context.Context) error { layer.Close(); return nil })
	return layer, nil
}

// TakeSingle decides a request with a single charge; see store.SingleTaker.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	return s.one.TakeSingle(ctx, limit, key, cost)
}

// Unwrap returns the outermost layer.
func (s *Store) Unwrap() store.Store { return s.Store }

// Health returns nil, or why the store is not called at present: its failure modes decide. It does no I/O.
func (s *Store) Health() error {
	if layer, ok := store.As[*failure.Store](s.Store); ok {
		return layer.Health()
	}
	return nil
}

// Stats counts the work of the layers. Those that are missing have zero values.
type Stats struct {
	Refusals struct { // what was remembered
		Hits    int64 // requests that were refused from memory
		Misses  int64 // requests that were not found and went to the store; those that are never remembered do not count
		Entries int64 // refusals in memory, including those that have ended but were not replaced yet
	}
	Failure struct { // what was decided without the store
		Fallbacks [store.Modes]int64 // requests that were decided without the store, by the mode that decided
		Refusals  int64              // how many of these were refused because the store had refused them before
		Undecided int64              // requests that returned an error because the store failed and no mode could decide
		Failures  int64              // requests that the store failed to answer
		Late      int64              // calls that took longer than Timeout
		Shed      int64              // requests that were not sent, because their key was late or too many were waiting
		Starved   int64              // calls that failed while this process did not run, which say nothing about the store
		Outages   int64              // how often the store, or a node, was found to be out
		Probes    int64              // probes sent
		Down      bool               // the store, or a node, is out: it is not called now, except for probes
	}
	Lease struct { // of limits with Lease
		Keys        int    // keys that are held now
		Outstanding int64  // units that were leased and are neither spent nor returned yet
		Taken       int64  // units that were leased
		Spent       int64  // units that were admitted from leases
		Returned    int64  // units that were returned
		Wasted      int64  // units that were charged and neither spent nor returned, as after an error
		Decisions   uint64 // requests that were admitted from leases, without their own call
		Calls       int64  // calls to the store to lease and to return units
	}
	Local memstore.Stats // what the failure mode local counts in this process
}

// Stats returns the current counts.
func (s *Store) Stats() (stats Stats) {
	if layer, ok := store.As[*refusals.Store](s.Store); ok {
		stats.Refusals = layer.Stats()
	}
	if layer, ok := store.As[*failure.Store](s.Store); ok {
		stats.Failure = layer.Stats()
	}
	if layer, ok := store.As[*lease.Store](s.Store); ok {
		stats.Lease = layer.Stats()
	}
	if s.local != nil {
		stats.Local = s.local.Stats()
	}
	return stats
}

// Close returns leased units and stops probing, or returns an error when ctx ends. It closes the layers that New has put, and what
// Observe returned if that is an io.Closer, but not the store. It is for the end of a program: requests are still decided afterwards, but
// an outage no longer ends for this Store.
func (s *Store) Close(ctx context.Context) error {
	var errs []error
	for _, close := range slices.Backward(s.close) { // leased units go back through the failure layer
		if err := close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stack: %w", err))
		}
	}
	return errors.Join(errs...)
}
