package envoy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
}

// item is one descriptor of a request.
type item struct {
	rule      *bound // nil if no limit applies
	unlimited bool
	refused   *bound          // a limit that came with the descriptor and cannot be counted; rule is then nil
	blocked   *preparedRuling // a ruling that blocks the descriptor; rule and refused are then nil
	by        *bound          // with blocked, the matching rule; nil if none
	hits      int64
	refund    bool
	address   string
	request   storeRequest
	answer    int  // index of its answer
	over      bool // over its limit, whether or not that refuses anything
	sent      bool // its limit came with the descriptor
}

// matched reports whether a rule, a limit of its own or a ruling applies to the descriptor.
func (a item) matched() bool {
	return a.rule != nil || a.unlimited || a.refused != nil || a.blocked != nil
}

// ShouldRateLimit decides one request of Envoy. On an error there is no decision, and Envoy follows its
// failure_mode_deny.
func (s *Service) ShouldRateLimit(ctx context.Context, request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	if err := check(request); err != nil {
		return nil, s.requestError(ctx, err)
	}
	w := s.work.Get().(*work)
	defer s.recycle(w)
	d := (*s.domains.Load())[request.GetDomain()]
	if d == nil && s.waiting.Load() {
		return nil, s.storeError(ctx, errNoRules)
	}
	w.domain = d
	if err := s.match(ctx, w, d, request); err != nil {
		return nil, s.requestError(ctx, err)
	}
	w.replace()
	if err := s.plan(w, d); err != nil {
		return nil, s.requestError(ctx, err)
	}
	if len(w.requests) > 0 {
		if err := s.store.Apply(ctx, w.requests); err != nil {
			return nil, s.storeError(ctx, err)
		}
		if s.opts.ClosedIsError && slices.ContainsFunc(w.answers, isFallbackClosed) {
			return nil, s.storeError(ctx, errClosed)
		}
	}
	return s.respond(ctx, w, request), nil
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

func (s *Service) requestError(ctx context.Context, err error) error {
	s.metrics.errors.Add(ctx, 1, s.metrics.invalid...)
	return status.Error(codes.InvalidArgument, err.Error())
}

func (s *Service) storeError(ctx context.Context, err error) error {
	s.metrics.errors.Add(ctx, 1, s.metrics.store...)
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

// match finds the rule of each descriptor and writes its address.
func (s *Service) match(ctx context.Context, w *work, d *domain, request *rls.RateLimitRequest) error {
	descriptors := request.GetDescriptors()
	ruled := s.rulingsOf(d)
	w.items = append(w.items[:0], make([]item, len(descriptors))...)
	w.ends, w.addresses, w.replacing = w.ends[:0], w.addresses[:0], w.replacing[:0]
	for i, descriptor := range descriptors {
		a := &w.items[i]
		a.hits, a.refund, a.answer = hitsOf(request, descriptor), descriptor.GetIsNegativeHits(), -1
		w.path = w.path[:0]
		switch {
		case d == nil: // an unknown domain has no limits, not even those that come with a descriptor
		case descriptor.GetLimit() != nil:
			o, err := overrideOf(descriptor.GetLimit())
			if err == nil {
				a.rule, err = d.override(s.binder, o)
			}
			if err != nil {
				return fmt.Errorf("envoy: descriptors[%d].limit: %w", i, err)
			}
			if a.sent = true; !s.admitWindow(ctx, d, a.rule.spec.limit.Window) {
				s.refuse(ctx, a)
			}
		default:
			a.rule, w.path = d.root.match(descriptor.GetEntries(), w.path)
		}
		if a.rule != nil {
			w.replacing = append(w.replacing, a.rule.replaces...)
		}
		if ruled != nil {
			if r := findRuling(ruled, descriptor.GetEntries(), &w.text); r != nil {
				s.applyRuling(ctx, d, a, r)
			}
		}
		if a.rule != nil && a.rule.unlimited {
			a.rule.tally.add(ctx, verdictOK)
			a.rule, a.unlimited = nil, true
		}
		if a.rule != nil {
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

// refuse refuses a descriptor whose limit cannot be counted, and only that one. The request does not fail: by default,
// Envoy admits a request that gets an error, which would lift all of its limits.
func (s *Service) refuse(ctx context.Context, a *item) {
	a.refused, a.rule = a.rule, nil
	s.metrics.errors.Add(ctx, 1, s.metrics.windows...)
	if s.warned.due(time.Now()) {
		s.opts.Logger.Warn("envoy: the descriptors of a connection have limits with too many different windows; those with new windows are refused. "+
			"Use units without a multiplier, or fewer different multipliers", "most", s.opts.MaxWindows)
	}
}

// replace drops the rules that other rules of the same request replace: they are neither decided nor charged.
func (w *work) replace() {
	if len(w.replacing) == 0 {
		return
	}
	for i := range w.items {
		if a := &w.items[i]; a.rule != nil && a.rule.name != "" && slices.Contains(w.replacing, a.rule.name) {
			a.rule = nil
		}
	}
}

// plan builds one batch for the store.
func (s *Service) plan(w *work, d *domain) error {
	n := len(w.items)
	w.requests = slices.Grow(w.requests[:0], n)
	w.charges = slices.Grow(w.charges[:0], n)
	w.answers = append(w.answers[:0], make([]rule.Answer, n)...)
	banned := false
	for i := range w.items {
		a := &w.items[i]
		banned = banned || a.blocked != nil || a.refused != nil && !a.refund
		if a.rule == nil {
			continue
		}
		a.request = a.rule.requestFor(a.hits, a.refund)
		banned = banned || a.chargedTogether(d) && a.rule.spec.limit.Quota == 0
	}
	if d != nil && d.charging == ChargeAll {
		if err := s.planTogether(w, d, banned); err != nil {
			return err
		}
	}
	for i := range w.items {
		if a := &w.items[i]; a.rule != nil && a.answer < 0 {
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

// planTogether builds one request for the descriptors that are charged all or nothing. If one of them is refused by a
// limit of 0, the others are only peeked at, not charged.
func (s *Service) planTogether(w *work, d *domain, banned bool) error {
	for i := range w.items {
		a := &w.items[i]
		if a.rule == nil || !a.chargedTogether(d) {
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
		if banned {
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
