package envoy

import (
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/internal/answering"
)

// recordSeen adds the descriptors that were decided to what was seen, by their texts. A rule in quota mode that is over its limit refuses
// only if the request is refused.
func (s *Service) recordSeen(w *work, request *rls.RateLimitRequest, refused bool) {
	for i, descriptor := range request.GetDescriptors() {
		a := &w.items[i]
		if a.kind < counted || a.refund || a.hits == 0 {
			continue
		}
		e := seen.Event{Route: a.rule.title, By: seen.ByLimits, Shadow: s.opts.Shadow || a.rule.shadow}
		e.Refused = a.over && (refused || !a.rule.quotaMode)
		if e.Refused {
			e.Limit = &a.rule.spec.limit
		}
		if a.kind == banned || a.kind == counted && a.rule.spec.limit.Quota == 0 {
			e.By = seen.ByNever
		}
		if a.kind == counted {
			answer := &w.answers[a.answer]
			e.Fallback = answer.Flags&answering.Fallbacks != 0
			if isFallbackClosed(*answer) {
				e.By = seen.ByFailure
			}
		}
		w.text = appendText(w.text[:0], descriptor.GetEntries())
		w.domain.seen.Add(string(w.text), &e)
	}
}
