package envoy

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
)

const (
	codeOK   = rls.RateLimitResponse_OK
	codeOver = rls.RateLimitResponse_OVER_LIMIT
)

// outcome is the sum of the statuses of a request.
type outcome struct {
	any        bool // a rule is over its limit, whether or not that refuses anything
	over       bool // an ordinary rule is over its limit
	quotas     int  // the number of rules in quota mode; with Options.Quota, of all descriptors that are not unlimited
	quotasOver int  // the number of those that are over their limits
	// The status that the headers report: the one over its limit that takes longest to admit, or the one with the least
	// remaining.
	reported   *rls.RateLimitResponse_DescriptorStatus
	retryAfter rule.Micros // when the request would be admitted
	quotaRetry rule.Micros // when the first of the rules in quota mode would admit it
}

// respond builds the response to a request from the store's answers.
func (s *Service) respond(ctx context.Context, w *work, request *rls.RateLimitRequest) *rls.RateLimitResponse {
	response := &rls.RateLimitResponse{
		OverallCode: codeOK,
		Statuses:    make([]*rls.RateLimitResponse_DescriptorStatus, len(w.items)),
	}
	o := outcome{quotaRetry: rule.Never}
	for i := range w.items {
		a := &w.items[i]
		switch {
		case a.blocked != nil:
			response.Statuses[i] = o.blocked(ctx, w.domain, a)
		case a.refused != nil && !a.refund:
			response.Statuses[i] = o.refused(ctx, a)
		case a.unlimited:
			response.Statuses[i] = &rls.RateLimitResponse_DescriptorStatus{Code: codeOK, LimitRemaining: math.MaxUint32}
		case a.rule == nil:
			if s.opts.Quota {
				o.quotas++
			}
			response.Statuses[i] = &rls.RateLimitResponse_DescriptorStatus{Code: codeOK}
		default:
			if a.sent {
				s.keepWindow(w.domain, a.rule.spec.limit.Window, time.Duration(w.answers[a.answer].ResetAfter)*time.Microsecond)
			}
			response.Statuses[i] = o.status(ctx, a, &w.answers[a.answer])
		}
	}
	if s.opts.OnUnmatched != nil && !slices.ContainsFunc(w.items, item.matched) {
		s.opts.OnUnmatched()
	}
	if !o.over && o.quotas > 0 && o.quotas == o.quotasOver {
		o.over, o.retryAfter = true, o.quotaRetry
	}
	if o.over && !s.opts.Shadow {
		response.OverallCode = codeOver
	}
	if o.any && s.opts.OnRefused != nil {
		s.reportRefused(w, request, o.over)
	}
	s.headers(response, &o)
	if s.opts.DynamicMetadata {
		response.DynamicMetadata = dynamicMetadata(w, request, response)
	}
	return response
}

// reportRefused calls OnRefused for the descriptors that are over their limits. Those in quota mode are included only if
// the request is refused.
func (s *Service) reportRefused(w *work, request *rls.RateLimitRequest, refused bool) {
	for i, descriptor := range request.GetDescriptors() {
		a := &w.items[i]
		if !a.over {
			continue
		}
		title := rulingRule
		if by := cmp.Or(a.rule, a.refused, a.by); by != nil {
			if by.quotaMode && !refused {
				continue
			}
			title = by.title
		}
		w.text = appendText(w.text[:0], descriptor.GetEntries())
		s.opts.OnRefused(w.domain.policy, string(w.text), title)
	}
}

// status builds the status of a descriptor, and adds it to the outcome.
func (o *outcome) status(ctx context.Context, a *item, answer *rule.Answer) *rls.RateLimitResponse_DescriptorStatus {
	over := a.request.interpretation == alwaysOver || a.request.interpretation == asAnswered && !answer.Allowed
	retryAfter := answer.RetryAfter
	if a.request.interpretation == alwaysOver {
		retryAfter = rule.Never
	}
	remaining := answer.Remaining
	if a.rule.spec.limit.Quota == 0 || a.request.interpretation == alwaysOver {
		remaining = 0
	}
	memory := new(struct { // one allocation, since nearly every request needs it
		status rls.RateLimitResponse_DescriptorStatus
		reset  durationpb.Duration
	})
	st := &memory.status
	st.Code, st.CurrentLimit, st.LimitRemaining = codeOK, a.rule.current, uint32(min(remaining, math.MaxUint32))
	memory.reset.Seconds = secondsUp(untilReset(a.rule, answer, over))
	st.DurationUntilReset = &memory.reset
	a.over = over
	o.any = o.any || over
	switch {
	case over && a.rule.shadow:
		a.rule.tally.add(ctx, verdictShadow)
	case over:
		st.Code = codeOver
		a.rule.tally.add(ctx, verdictOver)
	default:
		a.rule.tally.add(ctx, verdictOK)
	}
	o.add(a, st, retryAfter)
	return st
}

// refused builds the status of a descriptor whose limit cannot be counted, and adds it to the outcome.
func (o *outcome) refused(ctx context.Context, a *item) *rls.RateLimitResponse_DescriptorStatus {
	b := a.refused
	b.tally.add(ctx, verdictOver)
	a.over, o.any = true, true
	st := &rls.RateLimitResponse_DescriptorStatus{
		Code: codeOver, CurrentLimit: b.current, DurationUntilReset: durationpb.New(b.spec.limit.Window),
	}
	if !o.over || o.retryAfter != rule.Never {
		o.reported, o.retryAfter = st, rule.Never
	}
	o.over = true
	return st
}

// blocked builds the status of a descriptor that a ruling blocks, and adds it to the outcome.
func (o *outcome) blocked(ctx context.Context, d *domain, a *item) *rls.RateLimitResponse_DescriptorStatus {
	st := &rls.RateLimitResponse_DescriptorStatus{Code: codeOver}
	tally := d.tallyRuled
	if a.by != nil {
		st.CurrentLimit, tally = a.by.current, a.by.tally
	}
	tally.add(ctx, verdictOver)
	a.over, o.any = true, true
	retryAfter := rule.Never
	if !a.blocked.Until.IsZero() {
		retryAfter = max(0, rule.Micros(time.Until(a.blocked.Until).Microseconds()))
		st.DurationUntilReset = &durationpb.Duration{Seconds: secondsUp(retryAfter)}
	}
	if !o.over || retryAfter > o.retryAfter {
		o.reported, o.retryAfter = st, retryAfter
	}
	o.over = true
	return st
}

// add adds a status to the outcome.
func (o *outcome) add(a *item, st *rls.RateLimitResponse_DescriptorStatus, retryAfter rule.Micros) {
	over := st.Code == codeOver
	switch {
	case over && !a.rule.quotaMode:
		if !o.over || retryAfter > o.retryAfter {
			o.reported, o.retryAfter = st, retryAfter
		}
		o.over = true
	case !o.over && (o.reported == nil || st.LimitRemaining < o.reported.LimitRemaining):
		o.reported = st
	}
	if a.rule.quotaMode {
		o.quotas++
		if over {
			o.quotasOver++
			o.quotaRetry = min(o.quotaRetry, retryAfter)
		}
	}
}

// untilReset returns how long it takes until a limit resets. For a window that is fixed to the clock, it is the time
// until its end, whether or not anything was counted. Other limits do not reset at one time: for a limit that refuses,
// it is the time until it admits, and for a limit that admits, the time until all of its quota is free.
func untilReset(b *bound, answer *rule.Answer, over bool) rule.Micros {
	limit := b.limit.Rule()
	at, _ := answering.Unmark(answer.At)
	switch {
	case limit.Calendar != 0 && at > 0:
		_, end := limit.Bounds(at)
		return end - at
	case limit.Algorithm == slidegate.FixedWindow && limit.Anchor == rule.AnchorClock && at > 0:
		return limit.Window - at%limit.Window
	case over && answer.RetryAfter > 0 && answer.RetryAfter != rule.Never:
		return answer.RetryAfter
	}
	return answer.ResetAfter
}

// secondsUp rounds up to whole seconds: Envoy truncates, and a client that returns too early is refused again.
func secondsUp(m rule.Micros) int64 {
	const second = rule.Micros(1e6)
	return int64((m + second - 1) / second)
}

// headers adds the configured headers.
func (s *Service) headers(response *rls.RateLimitResponse, o *outcome) {
	if o.reported == nil || !s.opts.ResponseHeaders && !s.opts.RequestHeaders {
		return
	}
	headers := new(headerValues)
	headers.add("RateLimit-Limit", int64(o.reported.CurrentLimit.GetRequestsPerUnit()))
	headers.add("RateLimit-Remaining", int64(o.reported.GetLimitRemaining()))
	headers.add("RateLimit-Reset", o.reported.GetDurationUntilReset().GetSeconds())
	if s.opts.RequestHeaders {
		response.RequestHeadersToAdd = headers.list()
	}
	if s.opts.ResponseHeaders {
		if response.OverallCode == codeOver && o.retryAfter != rule.Never {
			headers.add("Retry-After", secondsUp(o.retryAfter))
		}
		response.ResponseHeadersToAdd = headers.list()
	}
}

// headerValues holds the headers of one response, in one allocation.
type headerValues struct {
	values   [4]core.HeaderValue
	pointers [4]*core.HeaderValue
	n        int
}

func (h *headerValues) add(name string, value int64) {
	to := &h.values[h.n]
	to.Key, to.Value = name, strconv.FormatInt(value, 10)
	h.pointers[h.n] = to
	h.n++
}

// list returns the headers added so far.
func (h *headerValues) list() []*core.HeaderValue { return h.pointers[:h.n:h.n] }
