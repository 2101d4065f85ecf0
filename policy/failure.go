package policy

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// base returns a limiter with these limits in a namespace. It is derived from an earlier limiter, which remembers
// limits, if there is one.
func (s *Set) base(namespace string, mode Mode, limits []slidegate.Limit) (*slidegate.Limiter, error) {
	id := baseID{namespace, mode}
	base := s.bases[id]
	if before := s.opts.Before; base == nil && before != nil && sameStore(before.stores[mode], s.stores[mode]) {
		base = before.bases[id] // over another store, it would continue to count there
	}
	if base == nil {
		var err error
		if base, err = slidegate.NewPerCall(s.stores[mode], namespace); err != nil { // a reload may change the quota
			return nil, err
		}
	}
	s.bases[id] = base
	return base.With(limits...)
}

// sameStore reports whether two stores are the same. Stores of an incomparable type are not.
func sameStore(a, b store.Store) bool {
	return a != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

// limiterOf returns the limiter that was passed to New with other limits, over a store with the failure mode. Layers
// are for stores that can be unreachable; errors of a store in process are handled by Verdict.fail, at no cost to other
// requests.
func (s *Set) limiterOf(mode Mode, limits []slidegate.Limit) (*slidegate.Limiter, error) {
	id := baseID{mode: mode}
	if base := s.bases[id]; base != nil {
		return base.With(limits...)
	}
	made, err := s.limiter.Over(func(st store.Store) (store.Store, error) {
		var err error
		_, layered := store.As[*failure.Store](st)
		away := st.Traits().RoundTrips > 0 && s.opts.Timeout >= 0
		if !layered && (away || mode == Local || mode == Optimistic) {
			st, err = s.layer(st, mode)
		}
		s.stores[mode] = st
		return st, err
	})
	if err != nil {
		return nil, err
	}
	s.bases[id] = made
	return made.With(limits...)
}

// layer puts the failure layer of a mode over a store.
func (s *Set) layer(st store.Store, mode Mode) (store.Store, error) {
	policy := failure.Open()
	switch mode {
	case Closed:
		policy = failure.Closed()
	case Local:
		local, err := memstore.New(memstore.Options{MaxBytes: s.opts.LocalBytes})
		if err != nil {
			return nil, fmt.Errorf("policy: local bytes: %w", err)
		}
		policy = failure.Local(local)
	case Optimistic:
		policy = failure.Optimistic(cmp.Or(s.opts.Optimism, DefaultOptimism))
	}
	if s.opts.Timeout < 0 {
		st = inProcess{st}
	}
	layered, err := failure.New(st, policy, failure.Options{
		Timeout:    max(0, s.opts.Timeout),
		OnFallback: func(_ context.Context, _ rule.Op, err error) { s.lastErrs[mode].Store(&err) },
	})
	if err != nil {
		return nil, fmt.Errorf("policy: timeout: %w", err)
	}
	if mode == Optimistic {
		s.owing = append(s.owing, layered)
	}
	return layered, nil
}

// inProcess is a store that is called like one in process: without a deadline and without a breaker.
type inProcess struct{ store.Store }

func (n inProcess) Unwrap() store.Store { return n.Store }

func (n inProcess) Traits() store.Traits {
	traits := n.Store.Traits()
	traits.RoundTrips = 0
	return traits
}

// explain adds to a verdict of a failure mode why the store did not answer. During an outage all requests have the same
// reason.
func (s *Set) explain(v *Verdict, mode Mode) {
	if why := s.lastErrs[mode].Load(); why != nil && v.Decision.Flags.Fallback() {
		v.Err, v.fault = *why, faultStore
	}
}
