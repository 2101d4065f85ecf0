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

// work is what one request needs while it is decided; the parts are used again by the next one.
type work struct {
	domain    *domain // nil if it is not known
	asked     []asked
	path      []*node
	replacing []string
	ends      []int  // where the address of each descriptor ends
	addresses []byte // of all descriptors
	requests  []store.Request
	charges   []store.Charge
	answers   []rule.Answer
	text      []byte
}

// asked is one descriptor of a request.
type asked struct {
	rule      *bound // nil if no limit applies
	unlimited bool
	refused   *bound // a limit that came with the descriptor and cannot be counted; rule is nil then
	blocked   *ruled // a ruling that refuses the descriptor; rule and refused are nil then
	by        *bound // with blocked, the rule that fits; nil if none does
	hits      int64
	refund    bool
	address   string
	ask       ask
	answer    int  // its place among the answers
	over      bool // its limit, whether or not that refuses anything
}

// ShouldRateLimit answers one request of Envoy. An error means that the answer is not known, so that Envoy does as its
// failure_mode_deny says.
func (s *Service) ShouldRateLimit(ctx context.Context, request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	if err := check(request); err != nil {
		return nil, s.invalid(ctx, err)
	}
	w := s.work.Get().(*work)
	defer s.give(w)
	d := (*s.domains.Load())[request.GetDomain()]
	if d == nil && s.waiting.Load() {
		return nil, s.failed(ctx, errAwaited)
	}
	w.domain = d
	if err := s.match(ctx, w, d, request); err != nil {
		return nil, s.invalid(ctx, err)
	}
	w.replace()
	if err := s.plan(w, d); err != nil {
		return nil, s.invalid(ctx, err)
	}
	if len(w.requests) > 0 {
		if err := s.store.Apply(ctx, w.requests); err != nil {
			return nil, s.failed(ctx, err)
		}
		if s.opts.ClosedIsError && slices.ContainsFunc(w.answers, closed) {
			return nil, s.failed(ctx, errClosed)
		}
	}
	return s.respond(ctx, w, request), nil
}

// errAwaited is why there is no answer before the first rules.
var errAwaited = errors.New("the management server has sent no rules yet")

// errClosed is what stands in for an answer that no store gave.
var errClosed = errors.New("it is down, or too slow")

// closed tells whether an answer is a failure policy's refusal.
func closed(a rule.Answer) bool { return a.Flags.FallbackClosed() }

// give puts work back without what it refers to, unless it has grown beyond the ordinary.
func (s *Service) give(w *work) {
	if cap(w.addresses) > 1<<14 {
		return
	}
	clear(w.asked)
	clear(w.path[:cap(w.path)])
	clear(w.replacing[:cap(w.replacing)])
	clear(w.requests)
	clear(w.charges)
	w.domain = nil
	s.work.Put(w)
}

func (s *Service) invalid(ctx context.Context, err error) error {
	s.metrics.errors.Add(ctx, 1, s.metrics.invalid...)
	return status.Error(codes.InvalidArgument, err.Error())
}

func (s *Service) failed(ctx context.Context, err error) error {
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
	if errors.Is(err, errAwaited) {
		return status.Errorf(code, "envoy: %v", err)
	}
	return status.Errorf(code, "envoy: the store gave no answer: %v", err)
}

// match finds the rule of each descriptor and writes its address.
func (s *Service) match(ctx context.Context, w *work, d *domain, request *rls.RateLimitRequest) error {
	descriptors := request.GetDescriptors()
	ruled := s.rulingsOf(d)
	w.asked = append(w.asked[:0], make([]asked, len(descriptors))...)
	w.ends, w.addresses, w.replacing = w.ends[:0], w.addresses[:0], w.replacing[:0]
	for i, descriptor := range descriptors {
		a := &w.asked[i]
		a.hits, a.refund, a.answer = hitsOf(request, descriptor), descriptor.GetIsNegativeHits(), -1
		w.path = w.path[:0]
		switch {
		case d == nil: // an unknown domain has no limits, not even those that come with a descriptor
		case descriptor.GetLimit() != nil:
			o, err := overrideOf(descriptor.GetLimit())
			if err == nil {
				a.rule, err = d.override(s.binder, s.windows, o)
			}
			if errors.Is(err, errWindows) {
				s.refuse(ctx, a)
				err = nil
			}
			if err != nil {
				return fmt.Errorf("envoy: descriptors[%d].limit: %w", i, err)
			}
		default:
			a.rule, w.path = d.root.match(descriptor.GetEntries(), w.path)
		}
		if a.rule != nil {
			w.replacing = append(w.replacing, a.rule.replaces...)
		}
		if ruled != nil {
			if r := find(ruled, descriptor.GetEntries(), &w.text); r != nil {
				s.obey(ctx, d, a, r)
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
		w.asked[i].address, start = addresses[start:end], end
	}
	return nil
}

// refuse refuses a descriptor whose limit cannot be counted, and that one alone. It is not an error of the request: Envoy lets a
// request pass to which there is no answer, unless it is told otherwise, and that with all of its limits.
func (s *Service) refuse(ctx context.Context, a *asked) {
	a.refused, a.rule = a.rule, nil
	s.metrics.errors.Add(ctx, 1, s.metrics.windows...)
	if s.windows.warn(time.Now()) {
		s.opts.Logger.Warn("envoy: descriptors bring limits with too many different windows; those with further ones are refused. "+
			"Use units without a multiplier, or fewer different multipliers", "most", s.opts.MaxWindows)
	}
}

// replace drops the rules that others of the same request replace: they are neither asked nor charged.
func (w *work) replace() {
	if len(w.replacing) == 0 {
		return
	}
	for i := range w.asked {
		if a := &w.asked[i]; a.rule != nil && a.rule.name != "" && slices.Contains(w.replacing, a.rule.name) {
			a.rule = nil
		}
	}
}

// plan makes one batch of all that is to be asked.
func (s *Service) plan(w *work, d *domain) error {
	n := len(w.asked)
	w.requests = slices.Grow(w.requests[:0], n)
	w.charges = slices.Grow(w.charges[:0], n)
	w.answers = append(w.answers[:0], make([]rule.Answer, n)...)
	banned := false
	for i := range w.asked {
		a := &w.asked[i]
		banned = banned || a.blocked != nil || a.refused != nil && !a.refund
		if a.rule == nil {
			continue
		}
		a.ask = a.rule.askFor(a.hits, a.refund)
		banned = banned || a.together(d) && a.rule.spec.limit.Quota == 0
	}
	if d != nil && d.charging == ChargeAll {
		if err := s.planTogether(w, d, banned); err != nil {
			return err
		}
	}
	for i := range w.asked {
		if a := &w.asked[i]; a.rule != nil && a.answer < 0 {
			w.alone(a, d)
		}
	}
	return nil
}

// together tells whether a descriptor is charged only if all others are. Rules that refuse nothing by themselves stand
// apart, and so does what is given back.
func (a *asked) together(d *domain) bool {
	return d.charging == ChargeAll && !a.refund && a.hits > 0 && !a.rule.shadow && !a.rule.quotaMode
}

// alone asks about a descriptor by itself.
func (w *work) alone(a *asked, d *domain) {
	charge := store.Charge{Limit: a.rule.limit, Key: a.address, Cost: a.ask.cost}
	if a.ask.op == rule.GiveBack {
		charge.At = rule.Oldest
	}
	a.answer = len(w.charges)
	w.charges = append(w.charges, charge)
	w.request(a.ask.op, d.group, a.answer)
}

// request asks about the charges from the one at start on.
func (w *work) request(op rule.Op, group string, start int) {
	end := len(w.charges)
	w.requests = append(w.requests, store.Request{
		Op: op, Group: group, Charges: w.charges[start:end:end], Answers: w.answers[start:end:end],
	})
}

// planTogether makes one request of the descriptors that are charged all or none. If one of them is refused by a limit of 0,
// the others are only looked at.
func (s *Service) planTogether(w *work, d *domain, banned bool) error {
	for i := range w.asked {
		a := &w.asked[i]
		if a.rule == nil || !a.together(d) {
			continue
		}
		if a.rule.spec.limit.Quota == 0 {
			a.ask = ask{rule.Peek, 1, alwaysOver} // by itself, for the times it tells
			continue
		}
		a.ask = ask{rule.Take, a.hits, asAnswered}
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
	if len(w.charges) > s.most {
		return fmt.Errorf("envoy: descriptors: %d have limits, and the store charges at most %d at once", len(w.charges), s.most)
	}
	if len(w.charges) > 0 {
		op := rule.Take
		if banned {
			op = rule.Peek
		}
		w.request(op, d.group, 0)
	}
	return nil
}

// sameAddress returns which charge has the address of a, for the costs of one address add up; -1 if none has.
func (w *work) sameAddress(a *asked) int {
	return slices.IndexFunc(w.charges, func(c store.Charge) bool {
		return c.Key == a.address && (c.Limit == a.rule.limit || c.Limit.Prefix() == a.rule.limit.Prefix())
	})
}
