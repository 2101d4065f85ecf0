package engine

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// open makes the Set use the store of the limiter that was passed to New, with layers for its failures if it has none. A
// Set that replaces another keeps its layers: a second breaker would have to find out about an outage again. Errors of a
// store without layers are handled by policy.Decision.fail.
func (s *Set) open(st store.Store) (store.Store, error) {
	_, guarded := store.As[*failure.Store](st)
	switch before := s.opts.Before; {
	case before != nil && before.layers != nil && sameStore(before.given, st):
		s.layers, s.lastErr = before.layers, before.lastErr
	case !guarded && s.opts.Timeout >= 0:
		last := new(atomic.Pointer[error])
		layers, err := stack.New(st, stack.Options{
			Failure: s.opts.Failure, Timeout: s.opts.Timeout, LocalBytes: s.opts.LocalBytes, Instances: s.opts.Instances,
			OnFallback: func(_ context.Context, _ store.Mode, _ rule.Op, err error) { last.Store(&err) },
		})
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		s.layers, s.lastErr = layers, last
	}
	over := st
	if s.layers != nil {
		over = s.layers.Unwrap()
	}
	s.use(st, over)
	return over, nil
}

// use makes the Set use a store with its layers; given is the store that the application passed.
func (s *Set) use(given, st store.Store) {
	s.given, s.store, s.traits = given, st, st.Traits()
	_, s.guarded = store.As[*failure.Store](st)
	s.mode = cmp.Or(s.opts.Failure, store.ModeOf(given))
	if s.mode == 0 && (s.layers != nil || !s.guarded) {
		s.mode = store.FailLocal
	}
}

// in returns the store for limits in a mode. The mode has no effect where no layer handles failures.
func (s *Set) in(mode store.Mode) store.Store {
	if !s.guarded {
		return s.store
	}
	return store.In(s.store, mode)
}

// base returns a limiter with these limits in a namespace and a mode. It is derived from an earlier limiter, which remembers
// limits, if there is one.
func (s *Set) base(namespace string, mode store.Mode, limits []slidegate.Limit) (*slidegate.Limiter, error) {
	id := baseID{namespace, mode}
	base := s.bases[id]
	if before := s.opts.Before; base == nil && before != nil && sameStore(before.store, s.store) {
		base = before.bases[id] // over another store, it would continue to count there
	}
	if base == nil {
		var err error
		if base, err = slidegate.New(slidegate.Namespace(s.in(mode), namespace)); err != nil { // a reload may change the quota
			return nil, err
		}
	}
	s.bases[id] = base
	return base.With(limits...)
}

// limiterOf returns the limiter that was passed to New with other limits, in a mode.
func (s *Set) limiterOf(mode store.Mode, limits []slidegate.Limit) (*slidegate.Limiter, error) {
	id := baseID{mode: mode}
	if s.bases[id] == nil {
		made, err := adapter.Over(s.limiter, func(store.Store) (store.Store, error) { return s.in(mode), nil })
		if err != nil {
			return nil, err
		}
		s.bases[id] = made
	}
	return s.bases[id].With(limits...)
}

// sameStore reports whether two stores are the same. Stores of an incomparable type are not.
func sameStore(a, b store.Store) bool {
	return a != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

func unknownMode(mode store.Mode) error {
	return fmt.Errorf("unknown mode %d; want store.FailLocal, FailClosed or FailOpen", mode)
}
