// Package gate runs the policies of the service: it finds the limits that apply to a request from its policy, the
// overrides and the allow and block lists, has a store decide, and reports what policies in shadow mode would have done.
// All listeners of the service (JSON, forward-auth, proxy, RESP) use the same Gate, so they return the same decisions.
// A Gate can load new policies while it runs, all or nothing, and keeps the counts.
package gate

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rulings"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Gate. The zero value is valid.
type Options struct {
	// Logger receives a line for every reload and for every policy that a reload changed; nil discards them. It never
	// receives keys.
	Logger *slog.Logger
	// MeterProvider receives the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
	// Requests says that requests run here, so that HoldRequest is used. New and Reload then reject policies that apply to the
	// same request but that the store cannot decide together, as they always do for policies with a Match.
	Requests bool
	// OnRefused is called for every key that was refused, or would have been if its policy were not in shadow mode. It
	// must be fast and safe for concurrent use, and must copy the key to keep it.
	OnRefused func(Refusal)
	// Seen remembers what was decided, by policy and key; nil remembers nothing.
	Seen *seen.Record
	// OnCrossed is called for every decision that crosses a threshold of a policy's Notify upwards, before the decision is returned.
	// It must be fast and safe for concurrent use, and must copy the key to keep it.
	OnCrossed func(Crossing)
	// Latency records how long decisions take, by listener; nil disables timing.
	Latency *Latency
	// Key signs reservations, and reservations without its signature are rejected; nil leaves them unsigned, for clients
	// that are trusted not to forge any.
	Key *Key
	// Closing ends when no request may wait in line anymore: those that do are refused. nil never ends.
	Closing context.Context
}

// Refusal is a key that a policy refused, or an Envoy descriptor that a rule refused.
type Refusal struct {
	Policy, Key string
	Rule        string          // the label of the Envoy rule; otherwise empty
	Limit       slidegate.Limit // of the Envoy rule
	By          policy.By
	Shadow      bool // it was admitted, because the policy or the rule is in shadow mode
}

// Crossing is that a key's usage of a limit reached a threshold.
type Crossing struct {
	Policy, Key string
	Limit       string // its label
	Percent     int    // the threshold
}

// Gate decides requests by policies. It is safe for concurrent use. The zero value is not usable; call New.
type Gate struct {
	store          store.Store
	opts           Options
	metrics        metrics
	latency        [listeners]*Histogram // nil if nothing is timed
	sampleInterval uint32                // one in this many decisions is timed
	current        atomic.Pointer[snapshot]
	batches        sync.Pool // of *[]engine.Part
	held           atomic.Int64

	ruled     atomic.Pointer[[]rulings.Ruling]
	reloading sync.Mutex // also held while rulings change
}

// New returns a gate for the policies of file, over a store with its layers. It rejects limits that the store does not
// support and keys that a live request does not have.
func New(file *config.File, st store.Store, opts Options) (*Gate, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gate{opts: opts, store: st, sampleInterval: sampleInterval(st)}
	g.batches.New = func() any { return new([]engine.Part) }
	g.metrics = metrics{tallies: map[string]*tally{}, onRefused: opts.OnRefused, onCrossed: opts.OnCrossed, seen: opts.Seen}
	if err := g.report(opts.MeterProvider); err != nil {
		return nil, err
	}
	own := []Listener{HTTP, RESP}
	if opts.Requests {
		own = []Listener{Proxy}
	}
	g.CountUnmatched(own[0], 0) // so that the first one is an increase, not a new series
	for _, listener := range own {
		if opts.Latency != nil {
			g.latency[listener] = opts.Latency.Of(listener)
		}
	}
	first, err := g.build(file, nil)
	if err != nil {
		return nil, errors.Join(err, g.metrics.stop())
	}
	first.prepare(st)
	g.current.Store(first)
	return g, nil
}

// Close stops reporting metrics and releases the capacity that the store holds for the limits. It does not close the
// store, and the gate still decides.
func (g *Gate) Close() error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	g.current.Load().release()
	return g.metrics.stop()
}

// Policies returns the names of the policies in the order of the file.
func (g *Gate) Policies() []string {
	if s := g.current.Load(); s != nil {
		return slices.Clone(s.names)
	}
	return nil
}

// PoliciesIn returns the names of the policies with a failure mode, except those in shadow mode, which refuse nothing.
func (g *Gate) PoliciesIn(mode store.Mode) (names []string) {
	s := g.current.Load()
	for _, p := range s.order {
		if s.set.Mode(p.index) == mode && !p.Shadow {
			names = append(names, p.Name)
		}
	}
	return names
}

// LimitsOf returns the limits that apply to a key under a policy now: the policy's own, or those of a ruling or of the
// matching override. It returns none if the policy is unknown or the key has no limit. It ignores lists, and plans that
// requests select by anything other than their key. The limits are shared and must not be modified.
func (g *Gate) LimitsOf(policy, key string) []slidegate.Limit {
	s := g.current.Load()
	if p := s.policies[policy]; p != nil {
		return s.set.LimitsOf(p.index, key)
	}
	return nil
}
