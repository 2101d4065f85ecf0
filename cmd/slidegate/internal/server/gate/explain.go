package gate

import (
	"context"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Explanation is what Explain tells: which rules an ask meets, and what they would say. It is a plain value, made for JSON.
// List and Override are entries of the file: an exact one is a key, so an Explanation is for whoever may see keys.
type Explanation struct {
	Policy    string           `json:"policy"`
	By        By               `json:"by"`
	Allowed   bool             `json:"allowed"` // what the client would get told
	Refused   bool             `json:"refused"` // the limits, or the deny list, would refuse
	Shadow    bool             `json:"shadow"`
	Failure   string           `json:"failure"`            // what happens when the store cannot answer: open, closed or local
	Source    string           `json:"source,omitempty"`   // store, cached, fallback_open, fallback_closed or fallback_local
	List      string           `json:"list,omitempty"`     // the entry of the allow or deny list that fits
	Override  string           `json:"override,omitempty"` // the key or pattern of the override that fits
	Limits    []ExplainedLimit `json:"limits,omitempty"`
	Candidate []ExplainedLimit `json:"candidate,omitempty"` // what the candidate would say, which decides nothing
}

// ExplainedLimit is what one limit would answer.
type ExplainedLimit struct {
	Limit            string `json:"limit"` // as slidegate.ParseLimit reads it
	Name             string `json:"name,omitempty"`
	Allowed          bool   `json:"allowed"`
	Quota            int64  `json:"quota"`
	Remaining        int64  `json:"remaining"`
	RetryAfterMicros *int64 `json:"retry_after_us"` // null means never
	ResetAfterMicros int64  `json:"reset_after_us"`
}

// Explain tells what would decide an ask and what each limit would answer. It charges nothing and counts nothing.
func (g *Gate) Explain(ctx context.Context, ask Ask) (Explanation, error) {
	p, r, by, err := g.route(&ask)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{
		Policy: p.Name, By: by, Shadow: p.Shadow, Failure: modeNames[p.mode], Refused: by == ByDenyList,
	}
	if r != nil {
		e.Override = r.override
	}
	switch by {
	case ByDenyList:
		e.List = p.deny.entry(ask.Key, ask.Address)
	case ByAllowList:
		e.List = p.allow.entry(ask.Key, ask.Address)
	case ByLimits:
		if err := g.explainLimits(ctx, &e, p, r, &ask); err != nil {
			return Explanation{}, err
		}
	}
	e.Allowed = !e.Refused || p.Shadow
	return e, nil
}

func (g *Gate) explainLimits(ctx context.Context, e *Explanation, p *policy, r *rules, ask *Ask) error {
	j := g.newJob()
	defer g.end(j)
	j.begin(rule.Peek)
	j.add(r.bound, ask.Key, ask.Cost)
	if p.candidate != nil && r == p.plain {
		j.begin(rule.Peek)
		j.add(p.candidate, ask.Key, ask.Cost)
	}
	j.apply(ctx, p.store)
	live := &j.requests[0]
	if live.Err != nil {
		return live.Err
	}
	_, allowed := rule.Deciding(live.Answers)
	e.Refused = !allowed
	e.Source = sourceOf(live.Answers[0].Flags)
	e.Limits = explained(live)
	if len(j.requests) > 1 && j.requests[1].Err == nil {
		e.Candidate = explained(&j.requests[1])
	}
	return nil
}

// explained tells what each limit of a request said.
func explained(r *store.Request) []ExplainedLimit {
	limits := make([]ExplainedLimit, len(r.Charges))
	for i := range r.Charges {
		limit, a := slidegate.Unbind(r.Charges[i].Limit), &r.Answers[i]
		limits[i] = ExplainedLimit{
			Limit: limit.String(), Name: limit.Name, Allowed: a.Allowed, Quota: limit.Quota,
			Remaining: a.Remaining, ResetAfterMicros: int64(a.ResetAfter),
		}
		if a.RetryAfter != rule.Never {
			retry := int64(a.RetryAfter)
			limits[i].RetryAfterMicros = &retry
		}
	}
	return limits
}

// sourceOf names who answered, in the words that metrics use.
func sourceOf(flags rule.Flags) string {
	switch {
	case flags.FallbackOpen():
		return "fallback_open"
	case flags.FallbackClosed():
		return "fallback_closed"
	case flags.FallbackLocal():
		return "fallback_local"
	case flags.Cached():
		return "cached"
	}
	return "store"
}
