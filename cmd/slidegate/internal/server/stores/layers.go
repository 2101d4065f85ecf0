package stores

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/layer/coalesce"
	"github.com/slidegate/slidegate/layer/denycache"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// noCoalescing is the number of calls for a store that coalesces calls itself.
const noCoalescing = -1

// putLayers wraps a remote store in its layers. From the outside in:
//
//	observe    sees all decisions, and which of them a failure mode made
//	lease      leases units for busy keys of limits with lease; one per mode, above the modes, so that units that a mode admits
//	           never become a lease
//	failure    the deadline; one per mode, each with its own breaker
//	denycache  one for all modes; below the failure modes, so that their refusals are not remembered
//	coalesce   one for all modes, whose requests share calls; omitted over a key-value engine, whose store lets all waiters for
//	           an entry share a swap
func (o *Opened) putLayers(st store.Store, calls int, opts *Options) error {
	timeout := opts.Timeout
	if timeout == 0 {
		timeout = 100 * time.Millisecond
	}
	var err error
	if calls != noCoalescing {
		if st, err = coalesce.New(st, coalesce.Options{InFlight: calls, Gather: true, Timeout: max(timeout, time.Second)}); err != nil {
			return fmt.Errorf("stores: %w", err)
		}
	}
	if opts.DenyAge >= 0 {
		if st, err = denycache.New(st, denycache.Options{MaxAge: opts.DenyAge}); err != nil {
			return fmt.Errorf("stores: %w", err)
		}
	}
	local, err := memstore.New(memstore.Options{MaxBytes: opts.MaxBytes})
	if err != nil {
		return fmt.Errorf("stores: %w", err)
	}
	if err := o.watchMemory(local, "local", opts.MeterProvider); err != nil {
		return err
	}
	owed := &debts{logger: opts.Logger}
	o.close = append(o.close, owed.close) // after the leases have returned their units
	leaseLayers := &leases{logger: opts.Logger}
	o.close = append(o.close, leaseLayers.close)
	watch := newOutages(opts.Logger, st.Traits().Name, timeout+cmp.Or(opts.ProbeEvery, max(time.Second, timeout)))
	o.close = append(o.close, watch.close)
	for _, mode := range []struct {
		name   string
		policy failure.Policy
		flag   rule.Flags
		to     *store.Store
	}{
		{"open", failure.Open(), rule.FallbackOpen, &o.Open},
		{"closed", failure.Closed(), rule.FallbackClosed, &o.Closed},
		{"local", failure.Local(local), rule.FallbackLocal, &o.Local},
		{"optimistic", failure.Optimistic(cmp.Or(opts.Optimism, policy.DefaultOptimism)), rule.FallbackOptimistic, &o.Optimistic},
		{"error", failure.Closed(), rule.FallbackClosed, &o.Unanswered},
	} {
		layered, err := failure.New(st, mode.policy, failureOptions(opts, timeout, mode.name, watch))
		if err != nil {
			return fmt.Errorf("stores: %w", err)
		}
		owed.layers = append(owed.layers, layered)
		leased, err := leaseLayers.wrap(layered, timeout)
		if err != nil {
			return err
		}
		observed, err := o.observed(leased, opts, observe.Options{
			Sources: []rule.Flags{rule.Cached, mode.flag}, FallbackClosed: "fallback_" + closedName(mode.name),
		})
		if err != nil {
			return err
		}
		*mode.to = observed
		watch.add(mode.name, layered, observed)
	}
	if err := o.watchOutages(watch, opts.MeterProvider); err != nil {
		return err
	}
	return o.watchLeases(leaseLayers, st.Traits().Name, opts.MeterProvider)
}

// closedName returns the name under which the refusals of a mode during an outage are reported.
func closedName(mode string) string {
	if mode == "error" {
		return mode
	}
	return "closed"
}

func failureOptions(opts *Options, timeout time.Duration, mode string, watch *outages) failure.Options {
	f := failure.Options{
		Timeout: timeout, ProbeEvery: opts.ProbeEvery, Failures: opts.Failures,
		OnFallback: func(_ context.Context, _ rule.Op, err error) { watch.fallback(mode, err) },
		OnChange:   func(err error) { watch.change(mode, err) },
	}
	if f.Failures == 0 {
		f.Failures = 3
	}
	if mode == "local" {
		f.Instances = opts.Instances
	}
	return f
}
