package envoy

import (
	"math"
	"slices"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
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
func (s *Service) respond(w *work, request *rls.RateLimitRequest) *rls.RateLimitResponse {
	response := &rls.RateLimitResponse{
		OverallCode: codeOK,
		Statuses:    make([]*rls.RateLimitResponse_DescriptorStatus, len(w.items)),
	}
	o := outcome{quotaRetry: rule.Never}
	for i := range w.items {
		a := &w.items[i]
		switch a.kind {
		case banned:
			response.Statuses[i] = o.banned(w, a)
		case unlimited:
			response.Statuses[i] = &rls.RateLimitResponse_DescriptorStatus{Code: codeOK, LimitRemaining: math.MaxUint32}
		case counted:
			if a.sent {
				s.keepWindow(w.domain, a.rule.spec.limit.Window, time.Duration(w.answers[a.answer].ResetAfter)*time.Microsecond)
			}
			response.Statuses[i] = o.status(w, a)
		default:
			if s.opts.Quota {
				o.quotas++
			}
			response.Statuses[i] = &rls.RateLimitResponse_DescriptorStatus{Code: codeOK}
		}
	}
	if s.opts.OnUnmatched != nil && !slices.ContainsFunc(w.items, func(a item) bool { return a.kind != unmatched }) {
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
	if w.domain != nil && w.domain.seen != nil {
		s.recordSeen(w, request, o.over)
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
		if a := &w.items[i]; a.over && (refused || !a.rule.quotaMode) {
			w.text = appendText(w.text[:0], descriptor.GetEntries())
			r := gate.Refusal{Policy: w.domain.policy, Key: string(w.text), Rule: a.rule.title, Limit: a.rule.spec.limit, Shadow: s.opts.Shadow || a.rule.shadow}
			s.opts.OnRefused(r)
		}
	}
}

// status builds the status of a descriptor, and adds it to the outcome.
func (o *outcome) status(w *work, a *item) *rls.RateLimitResponse_DescriptorStatus {
	answer := &w.answers[a.answer]
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
	outcome := outcomeOK
	switch {
	case over && a.rule.shadow:
		outcome = outcomeShadow
	case over:
		st.Code, outcome = codeOver, outcomeOver
	}
	a.rule.tally.add(w, outcome)
	o.add(a, st, retryAfter)
	return st
}

// banned builds the status of a descriptor whose limit cannot be counted, and adds it to the outcome.
func (o *outcome) banned(w *work, a *item) *rls.RateLimitResponse_DescriptorStatus {
	st := &rls.RateLimitResponse_DescriptorStatus{
		Code: codeOver, CurrentLimit: a.rule.current, DurationUntilReset: durationpb.New(a.rule.spec.limit.Window),
	}
	a.rule.tally.add(w, outcomeOver)
	if !o.over || o.retryAfter != rule.Never {
		o.reported, o.retryAfter = st, rule.Never
	}
	a.over, o.any, o.over = true, true, true
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
