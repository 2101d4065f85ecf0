package envoy

import (
	"cmp"
	"sync"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/store"
)

// bound is a rule that is ready to use. It is immutable.
type bound struct {
	*spec
	title   string                           // its name, or its path if it has none
	path    string                           // keys and values in the file, as in domain.key_value.key; empty if it came with a descriptor
	limit   *store.Limit                     // nil if unlimited
	current *rls.RateLimitResponse_RateLimit // the limit in responses; shared by all of them
	tally   *tally
}

// binder binds limits to the store, and caches the bindings, so that a reload keeps what stores computed for each
// limit. It is safe for concurrent use.
type binder struct {
	store store.Store
	quota bool // all rules are in quota mode
	mu    sync.RWMutex
	known map[binding]*store.Limit
}

type binding struct {
	domain string
	limit  slidegate.Limit
}

// maxKnown bounds the limits that a binder caches; others still work and are bound again each time. maxOverrides bounds the
// limits from descriptors that a domain caches; when there are more, the cache is cleared.
const (
	maxKnown     = 16_384
	maxOverrides = 4096
)

func (b *binder) bind(domain string, limit slidegate.Limit) (*store.Limit, error) {
	key := binding{domain, limit}
	b.mu.RLock()
	known := b.known[key]
	b.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	bound, err := adapter.Bind(namespacePrefix+domain, limit)
	if err != nil {
		return nil, err
	}
	if err := b.store.Check(bound); err != nil {
		return nil, err
	}
	bound = bound.In(store.ModeOf(b.store)) // otherwise the store would copy every batch
	b.mu.Lock()
	defer b.mu.Unlock()
	if earlier := b.known[key]; earlier != nil {
		return earlier, nil
	}
	if len(b.known) < maxKnown {
		b.known[key] = bound
	}
	return bound, nil
}

// rule binds a rule.
func (b *binder) rule(domain, title string, s *spec, tally *tally) (*bound, error) {
	if b.quota && !s.quotaMode {
		given := *s
		given.quotaMode, s = true, &given
	}
	r := &bound{spec: s, title: title, tally: tally}
	if s.unlimited {
		return r, nil
	}
	var err error
	if r.limit, err = b.bind(domain, s.storeLimit()); err != nil {
		return nil, err
	}
	r.current = &rls.RateLimitResponse_RateLimit{Name: s.name, RequestsPerUnit: uint32(s.limit.Quota), Unit: s.unit}
	if s.multiplier > 1 {
		r.current.UnitMultiplier = wrapperspb.UInt32(s.multiplier)
	}
	return r, nil
}

// domain is a Domain in service.
type domain struct {
	*Domain
	policy    string // the name that operators use for it: gate.EnvoyPrefix and the domain
	root      *level
	group     string // the group of the counts, since those charged all or nothing must be on one node of the store
	tallyOver *tally // for limits that come with descriptors

	tallyRuled *tally // for rulings about descriptors that no rule matches

	mu           sync.RWMutex
	overrides    map[override]*bound
	underRulings map[rulingBinding]*bound
}

// override is a limit that came with a descriptor.
type override struct {
	quota      uint32
	unit       rls.RateLimitResponse_RateLimit_Unit
	multiplier uint32
}

// domain puts a domain into service.
func (s *Service) domain(given *Domain) (*domain, error) {
	d := &domain{
		Domain: given, policy: gate.EnvoyPrefix + given.name,
		tallyOver: s.metrics.tallyOf(given.name, overrideRule), tallyRuled: s.metrics.tallyOf(given.name, rulingRule),
		overrides: map[override]*bound{}, underRulings: map[rulingBinding]*bound{},
	}
	if given.charging == ChargeAll {
		d.group = given.name
	}
	var err error
	if d.root, err = s.level(given.name, given.name, given.root); err != nil {
		return nil, invalid("domains", "%s: domain %q: %w", given.at, given.name, err)
	}
	return d, nil
}

// level copies a list of descriptors with its rules bound, since the result of Parse may be in service elsewhere. The
// argument path is the path of the list. Rules without a name are named by their path, as in the original; a path
// contains nothing that clients sent.
func (s *Service) level(domain, path string, given *level) (*level, error) {
	if given == nil {
		return nil, nil
	}
	l := newLevel()
	addNode := func(n *node) error {
		copied := *n
		below := path + "." + n.pair.String()
		var err error
		if n.rule != nil {
			title := cmp.Or(n.rule.name, below)
			if copied.bound, err = s.binder.rule(domain, title, n.rule, s.metrics.tallyOf(domain, title)); err != nil {
				return err
			}
			copied.bound.path = below
		}
		if copied.next, err = s.level(domain, below, n.next); err == nil {
			l.add(&copied)
		}
		return err
	}
	for n := range given.all() {
		if err := addNode(n); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// override returns the rule of a limit that came with a descriptor.
func (d *domain) override(b *binder, o override) (*bound, error) {
	d.mu.RLock()
	earlier := d.overrides[o]
	d.mu.RUnlock()
	if earlier != nil {
		return earlier, nil
	}
	rule, err := b.rule(d.name, overrideRule, &spec{
		unit: o.unit, multiplier: o.multiplier,
		limit: slidegate.Limit{
			Quota: int64(o.quota), Window: times(lengthOf(o.unit), int64(o.multiplier)),
			Algorithm: slidegate.FixedWindow, CountRefused: d.charging == ChargeEach,
		},
	}, d.tallyOver)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.overrides) >= maxOverrides {
		clear(d.overrides)
	}
	d.overrides[o] = rule
	return rule, nil
}
