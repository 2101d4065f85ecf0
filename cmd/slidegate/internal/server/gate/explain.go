package gate

import (
	"context"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Explanation is what Explain tells: which rules an ask meets, and what they would say. It is a plain value, made for JSON.
// List and Override are entries of the file: an exact one is a key, so an Explanation is for whoever may see keys.
type Explanation struct {
	Policy    string           `json:"policy"`
	By        By               `json:"by"`
	Allowed   bool             `json:"allowed"` // what the client would get told
	Refused   bool             `json:"refused"` // the limits, the deny list or a ruling would refuse
	Shadow    bool             `json:"shadow"`
	Failure   string           `json:"failure,omitempty"`    // what happens when the store cannot answer: open, closed, local or optimistic
	Source    string           `json:"source,omitempty"`     // store, cached, leased, fallback_open, fallback_closed, fallback_local or fallback_optimistic
	Ruling    *rulings.Ruling  `json:"ruling,omitempty"`     // what an operator has decided about the key
	List      string           `json:"list,omitempty"`       // the entry of the allow or deny list that fits
	Override  string           `json:"override,omitempty"`   // the key or pattern of the override that fits
	Plan      string           `json:"plan,omitempty"`       // the name of the plan that decides
	Penalty   int64            `json:"penalty_us,omitempty"` // for how long the key is kept out, in microseconds; the limits say no as long
	Limits    []ExplainedLimit `json:"limits,omitempty"`
	Candidate []ExplainedLimit `json:"candidate,omitempty"` // what the candidate would say, which decides nothing

	// Of descriptors of Envoy.
	Rule      string           `json:"rule,omitempty"`       // that fits: its name, or its path
	Path      string           `json:"path,omitempty"`       // of keys and values in the file, as in domain.key_value.key
	QuotaMode bool             `json:"quota_mode,omitempty"` // over its limit, it refuses a request only if all such rules are
	Brought   []ExplainedLimit `json:"brought,omitempty"`    // limits that came with the descriptor, as far as something is counted
	Note      string           `json:"note,omitempty"`       // why no rule fits
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
	var part policy.Part
	s, err := g.part(&ask, &part)
	if err != nil {
		return Explanation{}, err
	}
	p := s.order[part.Policy]
	e := Explanation{Policy: p.Name, Shadow: p.Shadow, Failure: s.set.Mode(p.place).String()}
	e.By, e.Override, e.List = s.set.Route(part)
	e.Plan, e.Override = s.planOf(&part, e.By, e.Override)
	if e.Ruling = g.ruled.Load().Find(p.Name, part.Key, time.Now()); e.Ruling != nil {
		e.Plan = "" // the ruling goes before it
	}
	e.Refused = e.By == ByDenyList || e.By == ByRuling
	if e.By == ByLimits {
		var v Verdict
		if s.set.Ask(ctx, rule.Peek, &part, &v); v.Err != nil {
			return Explanation{}, v.Err
		}
		e.Refused, e.Source, e.Limits = !v.Decision.Allowed, SourceOf(v.Decision.Flags), explained(&v)
		e.Penalty = v.Penalty.Microseconds()
		if e.Plan == "" && s.set.HasCandidate(p.place, part.Key) {
			part.Candidate = true
			var tried Verdict
			if s.set.Ask(ctx, rule.Peek, &part, &tried); tried.Err == nil {
				e.Candidate = explained(&tried)
			}
		}
	}
	e.Allowed = !e.Refused || p.Shadow
	return e, nil
}

// planOf returns the name of the plan that decides about a part, and the override if that does. Plans by key are overrides to the
// engine.
func (s *snapshot) planOf(part *policy.Part, by By, override string) (plan, over string) {
	p := s.order[part.Policy]
	switch {
	case by != ByLimits && by != ByUnlimited:
		return "", override
	case override == "" && s.set.Overridden(part.Policy, part.Key): // by a ruling
		return "", ""
	case override == "":
		return part.Plan.Name(), ""
	case p.plan == nil && slices.ContainsFunc(p.Plans, func(one config.Plan) bool { return one.Name == override }) &&
		!slices.ContainsFunc(p.Overrides, func(one config.Override) bool { return one.Fits(part.Key) }):
		return override, ""
	}
	return "", override
}

// explained tells what each limit said.
func explained(v *Verdict) []ExplainedLimit {
	answers := v.Decision.Answers
	if answers == nil {
		d := &v.Decision
		answers = []rule.Answer{{Allowed: d.Allowed, Remaining: d.Remaining, RetryAfter: rule.Never, ResetAfter: rule.Micros(d.ResetAfter.Microseconds())}}
		if !d.Never() {
			answers[0].RetryAfter = rule.Micros(d.RetryAfter.Microseconds())
		}
	}
	limits := make([]ExplainedLimit, len(v.Limits))
	for i, limit := range v.Limits {
		limits[i] = ExplainLimit(limit, &answers[i])
	}
	return limits
}

// ExplainLimit tells what a limit answered.
func ExplainLimit(limit slidegate.Limit, a *rule.Answer) ExplainedLimit {
	e := ExplainedLimit{
		Limit: limit.String(), Name: limit.Name, Allowed: a.Allowed, Quota: limit.Quota,
		Remaining: a.Remaining, ResetAfterMicros: int64(a.ResetAfter),
	}
	if a.RetryAfter != rule.Never {
		retry := int64(a.RetryAfter)
		e.RetryAfterMicros = &retry
	}
	return e
}

// SourceOf names who answered, in the words that metrics use.
func SourceOf(flags rule.Flags) string {
	switch {
	case flags.FallbackOpen():
		return "fallback_open"
	case flags.FallbackClosed():
		return "fallback_closed"
	case flags.FallbackLocal():
		return "fallback_local"
	case flags.FallbackOptimistic():
		return "fallback_optimistic"
	case flags.Leased():
		return "leased"
	case flags.Cached():
		return "cached"
	}
	return "store"
}
