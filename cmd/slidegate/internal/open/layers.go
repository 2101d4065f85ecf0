package open

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/store"
)

// putLayers puts the layers over a store: over one in memory only observation, over others all of package stack.
func (o *Opened) putLayers(st store.Store, opts *Options) (err error) {
	watch := &outages{log: opts.Logger, store: st.Traits().Name, modes: opts.Modes}
	o.layers, err = stack.New(st, stack.Options{
		Timeout: opts.Timeout, ProbeEvery: opts.ProbeEvery, Instances: opts.Instances,
		RefusalAge: opts.RefusalAge, Gather: true, Watch: opts.Watch,
		OnFallback: watch.fallback, OnChange: watch.change,
		Observe: func(st store.Store) (store.Store, error) { return o.observe(st, watch, opts.MeterProvider) },
	})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	o.Store = o.layers.Unwrap()
	o.close = append(o.close, func() error { o.closeLayers(opts.Logger); return nil })
	if o.Memory == nil {
		o.close = append(o.close, watch.close)
	}
	if opts.MeterProvider == nil {
		return nil
	}
	return o.report(st.Traits().Name, opts.MeterProvider)
}

// observe puts observation over a store. Without a provider, decisions are only counted for the log, which a store in memory does not
// need.
func (o *Opened) observe(st store.Store, watch *outages, provider metric.MeterProvider) (store.Store, error) {
	switch {
	case provider == nil && o.Memory != nil:
		return st, nil
	case provider == nil:
		provider = noop.NewMeterProvider()
	}
	observed, err := observe.New(st, observe.Options{MeterProvider: provider, Policy: policyOf})
	if err != nil {
		return nil, err
	}
	watch.countBy(observed)
	return observed, nil
}

// lastCalls is how long shutdown waits for the store to accept leased units. A store that is down must not delay shutdown
// further.
const lastCalls = 3 * time.Second

// closeLayers returns leased units, while the store can still be called.
func (o *Opened) closeLayers(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), lastCalls)
	defer cancel()
	before := o.layers.Stats().Lease
	_ = o.layers.Close(ctx) // the counts say what was not returned
	after := o.layers.Stats().Lease
	if lost := after.Wasted - before.Wasted + after.Outstanding; lost > 0 {
		log.Warn("leased units could not be returned; they count until they leave their windows", slog.Int64("units", lost))
	}
}

// LeasesOut returns the units that were leased and are neither spent nor returned yet, by policy, as metrics name it.
func (o *Opened) LeasesOut() map[string]int64 {
	layer, ok := store.As[*lease.Store](o.Store)
	if !ok {
		return nil
	}
	units := map[string]int64{}
	for namespace, out := range layer.Outstanding() {
		units[policyName(namespace)] += out
	}
	return units
}

// policyOf returns the name of a limit's policy.
func policyOf(limit *store.Limit) (name string) { return policyName(limit.Namespace()) }

// policyName returns the name of a namespace in metrics: the name of the policy, or envoy:DOMAIN for rules of Envoy.
func policyName(namespace string) string {
	if domain, ok := strings.CutPrefix(namespace, envoyNamespace); ok {
		return "envoy:" + domain
	}
	return namespace
}

// envoyNamespace is the prefix of the namespaces of Envoy's domains. Policy names contain no slash.
const envoyNamespace = "envoy/"
