package gate

import (
	"context"
	"net/http"

	"github.com/slidegate/slidegate/rule"
)

// RequestExplanation is the result of ExplainRequest. Like an Explanation, it is for operators who may see keys.
type RequestExplanation struct {
	Allowed          bool          `json:"allowed"`
	Rejected         string        `json:"rejected,omitempty"` // why the listener rejects it, whatever the policies decide
	Policy           string        `json:"policy,omitempty"`   // that decides; empty if none matches
	By               By            `json:"by"`
	RetryAfterMicros *int64        `json:"retry_after_us"`      // null means never
	Policies         []Explanation `json:"policies"`            // of those that match
	Exempting        []string      `json:"exempting,omitempty"` // that match, and exempt the request by a route
	NotMatching      []string      `json:"not_matching,omitempty"`
}

// ExplainRequest returns which policies apply to a request, by which keys, and what CheckRequest would decide. It charges
// nothing and counts nothing.
func (g *Gate) ExplainRequest(ctx context.Context, r *http.Request) (all RequestExplanation, err error) {
	s := g.current.Load()
	request := s.set.Begin()
	defer request.End()
	for _, p := range s.order {
		switch p.applies(r) {
		case noMatch:
			all.NotMatching = append(all.NotMatching, p.Name)
		case isExempt:
			all.Exempting = append(all.Exempting, p.Name)
		case isLimited:
			part := s.part(p, r)
			e, err := g.explain(ctx, s, part)
			if err != nil {
				return all, err
			}
			e.Missing = s.file.MissingFields(&p.Policy, r)
			all.Policies = append(all.Policies, e)
			request.Add(part)
		}
	}
	retry := int64(0)
	all.Allowed, all.By, all.RetryAfterMicros = true, ByUnlimited, &retry
	if len(all.Policies) == 0 {
		all.Policies = []Explanation{}
		return all, nil
	}
	var v Verdict
	request.Decide(ctx, rule.Peek, &v)
	if err := s.finishMatching(&v, r); err != nil {
		return all, err
	}
	all.Allowed, all.Policy, all.By = v.Decision.Allowed, v.Policy, v.By
	if v.Decision.Never() {
		all.RetryAfterMicros = nil
	} else if !v.Decision.Allowed {
		retry = v.Decision.RetryAfter.Microseconds()
	}
	return all, nil
}
