package envoy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// work is the reusable memory of one request.
type work struct {
	domain    *domain // nil if it is unknown
	items     []item
	path      []*node
	replacing []string
	ends      []int  // where the address of each descriptor ends
	addresses []byte // the addresses of all descriptors, concatenated
	requests  []store.Request
	charges   []store.Charge
	answers   []rule.Answer
	text      []byte
	lane      uint32 // in which it counts
}

// kind is what decides about a descriptor.
type kind uint8

const (
	unmatched kind = iota // nothing does
	ignored               // its rule is replaced by another, or cannot be counted and is not needed
	counted               // the limit of its rule
	unlimited             // its rule admits everything
	banned                // it is over its limit, which cannot be counted
)

// item is one descriptor of a request.
type item struct {
	kind    kind
	rule    *bound // nil if none matches
	hits    int64
	refund  bool
	address string
	request storeRequest
	answer  int  // index of its answer
	over    bool // over its limit, whether or not that refuses anything
	sent    bool // its limit came with the descriptor
}

// ShouldRateLimit decides one request of Envoy. On an error there is no decision, and Envoy follows its
// failure_mode_deny.
func (s *Service) ShouldRateLimit(ctx context.Context, request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	if err := check(request); err != nil {
		return nil, s.requestError(err)
	}
	w := s.work.Get().(*work)
	defer s.recycle(w)
	d := (*s.domains.Load())[request.GetDomain()]
	if d == nil && s.waiting.Load() {
		return nil, s.storeError(errNoRules)
	}
	w.domain = d
	if err := s.match(ctx, w, request); err != nil {
		return nil, s.requestError(err)
	}
	w.replace()
	if err := s.plan(w, d); err != nil {
		return nil, s.requestError(err)
	}
	if len(w.requests) > 0 {
		if err := s.store.Apply(ctx, w.requests); err != nil {
			return nil, s.storeError(err)
		}
		if s.opts.ClosedIsError && slices.ContainsFunc(w.answers, isFallbackClosed) {
			return nil, s.storeError(errClosed)
		}
	}
	return s.respond(w, request), nil
}

// errNoRules is the error for unknown domains until the first rules arrive.
var errNoRules = errors.New("the management server has sent no rules yet")

// errClosed stands in for an answer that the store did not give.
var errClosed = errors.New("it is down, or too slow")

// isFallbackClosed reports whether an answer is a refusal by the failure mode.
func isFallbackClosed(a rule.Answer) bool { return a.Flags&rule.FallbackClosed != 0 }

// recycle returns work to the pool without its references, unless it has grown unusually large.
func (s *Service) recycle(w *work) {
	if cap(w.addresses) > 1<<14 {
		return
	}
	clear(w.items)
	clear(w.path[:cap(w.path)])
	clear(w.replacing[:cap(w.replacing)])
	clear(w.requests)
	clear(w.charges)
	w.domain = nil
	s.work.Put(w)
}

func (s *Service) requestError(err error) error {
	s.metrics.errors[errorInvalid].Add(1)
	return status.Error(codes.InvalidArgument, err.Error())
}

func (s *Service) storeError(err error) error {
	s.metrics.errors[errorStore].Add(1)
	code := codes.Unavailable
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, store.ErrUnsupported):
		code = codes.FailedPrecondition
	}
	if errors.Is(err, errNoRules) {
		return status.Errorf(code, "envoy: %v", err)
	}
	return status.Errorf(code, "envoy: the store did not answer: %v", err)
}

// match finds what decides about each descriptor, and writes its address.
func (s *Service) match(ctx context.Context, w *work, request *rls.RateLimitRequest) error {
	descriptors := request.GetDescriptors()
	w.items = append(w.items[:0], make([]item, len(descriptors))...)
	w.ends, w.addresses, w.replacing = w.ends[:0], w.addresses[:0], w.replacing[:0]
	for i, descriptor := range descriptors {
		a := &w.items[i]
		a.hits, a.refund, a.answer = hitsOf(request, descriptor), descriptor.GetIsNegativeHits(), -1
		if w.domain != nil { // an unknown domain has no limits, not even those that come with a descriptor
			if err := s.matchOne(ctx, w, a, descriptor); err != nil {
				return fmt.Errorf("envoy: descriptors[%d].limit: %w", i, err)
			}
		}
		if a.kind == counted {
			w.addresses = appendAddress(w.addresses, descriptor.GetEntries(), w.path)
		}
		w.ends = append(w.ends, len(w.addresses))
	}
	addresses, start := string(w.addresses), 0
	for i, end := range w.ends {
		w.items[i].address, start = addresses[start:end], end
	}
	return nil
}

// matchOne finds what decides about a descriptor: the limit that came with it, or the rule that matches it.
func (s *Service) matchOne(ctx context.Context, w *work, a *item, descriptor *common.RateLimitDescriptor) (err error) {
	d := w.domain
	w.path = w.path[:0]
	if limit := descriptor.GetLimit(); limit != nil {
		if a.rule, err = d.override(limit); err != nil {
			return err
		}
		a.kind, a.sent = counted, true
		if !s.admitWindow(ctx, d, a.rule.spec.limit.Window) {
			s.ban(a)
		}
	} else if a.rule, w.path = d.root.match(descriptor.GetEntries(), w.path); a.rule != nil {
		a.kind = counted
	}
	if a.kind == counted {
		w.replacing = append(w.replacing, a.rule.replaces...)
	}
	if a.kind == counted && a.rule.unlimited {
		a.rule.tally.add(w, outcomeOK)
		a.kind = unlimited
	}
	return nil
}

// ban refuses a descriptor whose limit cannot be counted, and only that one. The request does not fail: by default,
// Envoy admits a request that gets an error, which would lift all of its limits.
func (s *Service) ban(a *item) {
	if a.kind = banned; a.refund {
		a.kind = ignored
	}
	s.metrics.errors[errorWindows].Add(1)
	if s.warned.due(time.Now()) {
		s.opts.Logger.Warn("envoy: the descriptors of a connection have limits with too many different windows; those with new windows are refused. "+
			"Use units without a multiplier, or fewer different multipliers", "most", maxWindows)
	}
}

// replace drops the rules that other rules of the same request replace: they are neither decided nor charged.
func (w *work) replace() {
	if len(w.replacing) == 0 {
		return
	}
	for i := range w.items {
		if a := &w.items[i]; a.kind == counted && a.rule.name != "" && slices.Contains(w.replacing, a.rule.name) {
			a.kind = ignored
		}
	}
}

// plan builds one batch for the store.
func (s *Service) plan(w *work, d *domain) error {
	n := len(w.items)
	w.requests = slices.Grow(w.requests[:0], n)
	w.charges = slices.Grow(w.charges[:0], n)
	w.answers = append(w.answers[:0], make([]rule.Answer, n)...)
	refused := false
	for i := range w.items {
		a := &w.items[i]
		refused = refused || a.kind == banned
		if a.kind != counted {
			continue
		}
		a.request = a.rule.requestFor(a.hits, a.refund)
		refused = refused || a.chargedTogether(d) && a.rule.spec.limit.Quota == 0
	}
	if d != nil && d.charging == ChargeAll {
		if err := s.planTogether(w, d, refused); err != nil {
			return err
		}
	}
	for i := range w.items {
		if a := &w.items[i]; a.kind == counted && a.answer < 0 {
			w.addSeparate(a, d)
		}
	}
	return nil
}

// chargedTogether reports whether a descriptor is charged only if all others are. Rules in shadow mode and in quota mode
// are charged separately, and so are refunds.
func (a *item) chargedTogether(d *domain) bool {
	return d.charging == ChargeAll && !a.refund && a.hits > 0 && !a.rule.shadow && !a.rule.quotaMode
}

// addSeparate adds a request for one descriptor.
func (w *work) addSeparate(a *item, d *domain) {
	charge := store.Charge{Limit: a.rule.limit, Key: a.address, Cost: a.request.cost}
	if a.request.op == rule.GiveBack {
		charge.At = rule.Oldest
	}
	a.answer = len(w.charges)
	w.charges = append(w.charges, charge)
	w.addRequest(a.request.op, d.group, a.answer)
}

// addRequest adds a request for the charges from start on.
func (w *work) addRequest(op rule.Op, group string, start int) {
	end := len(w.charges)
	w.requests = append(w.requests, store.Request{
		Op: op, Group: group, Charges: w.charges[start:end:end], Answers: w.answers[start:end:end],
	})
}

// planTogether builds one request for the descriptors that are charged all or nothing. If one is refused whatever is counted, the
// others are only peeked at, not charged.
func (s *Service) planTogether(w *work, d *domain, refused bool) error {
	for i := range w.items {
		a := &w.items[i]
		if a.kind != counted || !a.chargedTogether(d) {
			continue
		}
		if a.rule.spec.limit.Quota == 0 {
			a.request = storeRequest{rule.Peek, 1, alwaysOver} // separately, for its times
			continue
		}
		a.request = storeRequest{rule.Take, a.hits, asAnswered}
		if a.answer = w.sameAddress(a); a.answer >= 0 {
			w.charges[a.answer].Cost = min(w.charges[a.answer].Cost+a.hits, rule.MaxQuota)
			if a.rule.limit.Rule().Quota < w.charges[a.answer].Limit.Rule().Quota {
				w.charges[a.answer].Limit = a.rule.limit // the stricter of two limits on one count
			}
			continue
		}
		a.answer = len(w.charges)
		w.charges = append(w.charges, store.Charge{Limit: a.rule.limit, Key: a.address, Cost: a.hits})
	}
	if len(w.charges) > s.maxTogether {
		return fmt.Errorf("envoy: descriptors: %d have limits, but the store charges at most %d together", len(w.charges), s.maxTogether)
	}
	if len(w.charges) > 0 {
		op := rule.Take
		if refused {
			op = rule.Peek
		}
		w.addRequest(op, d.group, 0)
	}
	return nil
}

// sameAddress returns the index of the charge with the address of a, or -1. The costs of one address add up.
func (w *work) sameAddress(a *item) int {
	return slices.IndexFunc(w.charges, func(c store.Charge) bool {
		return c.Key == a.address && (c.Limit == a.rule.limit || c.Limit.Prefix() == a.rule.limit.Prefix())
	})
}
