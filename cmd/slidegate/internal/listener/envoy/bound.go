package envoy

import (
	"cmp"
	"sync"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/store"
)

// bound is a rule that is ready to use. It is immutable.
type bound struct {
	spec
	title   string                           // its name, or else its path: keys and values in the file, as in domain.key_value.key
	limit   *store.Limit                     // nil if unlimited
	current *rls.RateLimitResponse_RateLimit // the limit in responses; shared by all of them
	tally   *tally
}

// maxOverrides bounds the limits from descriptors that a domain caches; when there are more, the cache is cleared.
const maxOverrides = 4096

// policyPrefix precedes the names of domains where those of policies stand too. No policy has a colon in its name.
const policyPrefix = "envoy:"

// domain is a Domain in service.
type domain struct {
	*Domain
	policy  string             // its name in what was seen and in logs: policyPrefix and the domain
	seen    *seen.PolicyRecord // nil if nothing is remembered
	root    *level
	group   string             // the group of the counts, since those charged all or nothing must be on one node of the store
	limiter *slidegate.Limiter // it binds limits to the store, and remembers them
	limits  []*store.Limit     // of its rules
	sent    *bound             // stands for the rule of limits that come with descriptors

	mu        sync.RWMutex
	overrides map[override]*bound
}

// override is a limit that came with a descriptor.
type override struct {
	quota      uint32
	unit       rls.RateLimitResponse_RateLimit_Unit
	multiplier uint32
}

// domain puts a domain into service. What stores computed for its limits is kept if it was in service before.
func (s *Service) domain(given *Domain) (*domain, error) {
	d := &domain{
		Domain: given, policy: policyPrefix + given.name, overrides: map[override]*bound{},
		sent: &bound{title: overrideRule, tally: s.metrics.tallyOf(given.name, overrideRule)},
	}
	if s.opts.Seen != nil {
		d.seen = s.opts.Seen.Policy(d.policy)
	}
	d.sent.quotaMode = s.opts.Quota
	if given.charging == ChargeAll {
		d.group = given.name
	}
	var err error
	if before := (*s.domains.Load())[given.name]; before != nil {
		d.limiter = before.limiter
	} else if d.limiter, err = slidegate.New(slidegate.Namespace(s.store, namespacePrefix+given.name)); err != nil {
		return nil, err
	}
	if d.root, err = s.level(d, given.name, given.root); err != nil {
		return nil, invalid("domains", "%s: domain %q: %w", given.at, given.name, err)
	}
	return d, nil
}

// bind makes a rule with a limit ready to use.
func (d *domain) bind(r *bound) (*bound, error) {
	if r.unlimited {
		return r, nil
	}
	limiter, err := d.limiter.With(r.storeLimit())
	if err != nil {
		return nil, err
	}
	r.limit = adapter.Bound(limiter)[0]
	r.current = &rls.RateLimitResponse_RateLimit{Name: r.name, RequestsPerUnit: uint32(r.spec.limit.Quota), Unit: r.unit}
	if r.multiplier > 1 {
		r.current.UnitMultiplier = wrapperspb.UInt32(r.multiplier)
	}
	return r, nil
}

// level copies a list of descriptors with its rules bound, since the result of Parse may be in service elsewhere. The
// argument path is the path of the list. Rules without a name are named by their path, as in the original; a path
// contains nothing that clients sent.
func (s *Service) level(d *domain, path string, given *level) (l *level, err error) {
	if given == nil {
		return nil, nil
	}
	l = newLevel()
	for n := range given.all() {
		copied := *n
		below := path + "." + n.pair.String()
		if n.rule != nil {
			r := &bound{spec: *n.rule, title: cmp.Or(n.rule.name, below)}
			r.quotaMode, r.tally = r.quotaMode || s.opts.Quota, s.metrics.tallyOf(d.name, r.title)
			if copied.bound, err = d.bind(r); err != nil {
				return nil, err
			}
			if r.limit != nil {
				d.limits = append(d.limits, r.limit)
			}
		}
		if copied.next, err = s.level(d, below, n.next); err != nil {
			return nil, err
		}
		l.add(&copied)
	}
	return l, nil
}

// override returns the rule of a limit that came with a descriptor.
func (d *domain) override(limit *common.RateLimitDescriptor_RateLimitOverride) (*bound, error) {
	o, err := overrideOf(limit)
	if err != nil {
		return nil, err
	}
	d.mu.RLock()
	earlier := d.overrides[o]
	d.mu.RUnlock()
	if earlier != nil {
		return earlier, nil
	}
	r := *d.sent
	r.unit, r.multiplier = o.unit, o.multiplier
	r.spec.limit = slidegate.Limit{
		Quota: int64(o.quota), Window: times(lengthOf(o.unit), int64(o.multiplier)),
		Algorithm: slidegate.FixedWindow, CountRefused: d.charging == ChargeEach,
	}
	if _, err := d.bind(&r); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.overrides) >= maxOverrides {
		clear(d.overrides)
	}
	d.overrides[o] = &r
	return &r, nil
}
