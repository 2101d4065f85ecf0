package stores

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/layer/coalesce"
	"github.com/slidegate/slidegate/layer/denycache"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// putLayers puts the layers over a store that is a network away. From the outside in:
//
//	observe    sees all answers, and which of them a failure mode gave
//	lease      units of busy keys in blocks, for limits that say so; one for each mode, for it is above the modes, so that what
//	           these admit never becomes a block
//	failure    the deadline; one for each mode, with a breaker of its own
//	denycache  one for all modes; below the failure modes, so that what these refuse is not remembered
//	coalesce   one for all modes: what they ask shares calls
func (o *Opened) putLayers(st store.Store, calls int, opts *Options) error {
	timeout := opts.Timeout
	if timeout == 0 {
		timeout = 100 * time.Millisecond
	}
	shared, err := coalesce.New(st, coalesce.Options{InFlight: calls, Gather: true, Timeout: max(timeout, time.Second)})
	if err != nil {
		return fmt.Errorf("stores: %w", err)
	}
	st = shared
	if opts.DenyAge >= 0 {
		if st, err = denycache.New(shared, denycache.Options{MaxAge: opts.DenyAge}); err != nil {
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
	hopes := failure.Optimistic(cmp.Or(opts.Optimism, policy.DefaultOptimism))
	owed := &debts{logger: opts.Logger}
	o.close = append(o.close, owed.close) // after the leases have given back what is out
	blocks := &leases{logger: opts.Logger}
	o.close = append(o.close, blocks.close)
	for _, mode := range []struct {
		policy failure.Policy
		to     *store.Store
	}{
		{failure.Open(), &o.Open}, {failure.Closed(), &o.Closed}, {failure.Local(local), &o.Local}, {hopes, &o.Optimistic},
	} {
		layered, err := failure.New(st, mode.policy, failureOptions(opts, timeout, mode.policy.String()))
		if err != nil {
			return fmt.Errorf("stores: %w", err)
		}
		owed.layers = append(owed.layers, layered)
		leased, err := blocks.over(layered, timeout)
		if err != nil {
			return err
		}
		if *mode.to, err = o.observed(leased, opts); err != nil {
			return err
		}
	}
	return o.watchLeases(blocks, opts.MeterProvider)
}

func failureOptions(opts *Options, timeout time.Duration, mode string) failure.Options {
	f := failure.Options{
		Timeout: timeout, ProbeEvery: opts.ProbeEvery, Failures: opts.Failures, OnFallback: teller(opts.Logger, mode),
	}
	if f.Failures == 0 {
		f.Failures = 3
	}
	if mode == "local" {
		f.Instances = opts.Instances
	}
	return f
}

// tellEvery is how often it is told that a failure mode answers: not at every request, of which there may be thousands.
const tellEvery = 10 * time.Second

// teller returns what logs that a failure mode answers.
func teller(log *slog.Logger, mode string) func(context.Context, rule.Op, error) {
	base := time.Now()
	var next, since atomic.Int64
	return func(_ context.Context, _ rule.Op, err error) {
		answered := since.Add(1)
		now, due := int64(time.Since(base)), next.Load()
		if now < due || !next.CompareAndSwap(due, now+int64(tellEvery)) {
			return
		}
		since.Add(-answered)
		log.Warn("the store does not answer; its failure mode does", slog.String("mode", mode),
			slog.Int64("requests", answered), slog.Any("error", err))
	}
}
