package gate

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/rulings"
)

// Explanation is the result of Explain: which rules apply to a request, and what each would decide. It is a plain
// value, made for JSON. List and Override are entries of the file. An entry may be a key, so show an Explanation only
// to operators who may see keys.
type Explanation struct {
	Policy   string           `json:"policy"`
	Key      string           `json:"key"` // as requests have it
	By       policy.By        `json:"by"`
	Allowed  bool             `json:"allowed"` // what the client would get
	Refused  bool             `json:"refused"` // the limits, the block list or a ruling would refuse
	Shadow   bool             `json:"shadow"`
	Failure  string           `json:"failure,omitempty"`    // the failure mode: open, closed or local
	Source   string           `json:"source,omitempty"`     // store, cached, leased, fallback_open, fallback_closed or fallback_local
	Ruling   *rulings.Ruling  `json:"ruling,omitempty"`     // an operator's ruling about the key
	List     string           `json:"list,omitempty"`       // the matching entry of the allow or block list
	Override string           `json:"override,omitempty"`   // the key or pattern of the matching override
	Plan     string           `json:"plan,omitempty"`       // the name of the plan that decides
	Penalty  int64            `json:"penalty_us,omitempty"` // for how long the penalty still lasts, in microseconds; the limits refuse for as long
	Limits   []ExplainedLimit `json:"limits,omitempty"`

	slots bool // one of the limits is an in-flight limit

	Note    string   `json:"note,omitempty"`    // what the explanation leaves out
	Missing []string `json:"missing,omitempty"` // fields of the key that the request lacks, and why
}

// ExplainedLimit is the answer that one limit would give.
type ExplainedLimit struct {
	Limit            string `json:"limit"` // as slidegate.ParseLimit reads it
	Name             string `json:"name,omitempty"`
	Allowed          bool   `json:"allowed"`
	Quota            int64  `json:"quota"`
	Remaining        *int64 `json:"remaining"`      // null if no limit decided, because the store did not answer
	RetryAfterMicros *int64 `json:"retry_after_us"` // null means never
	ResetAfterMicros int64  `json:"reset_after_us"`
}

// Explain returns what would decide a request, and the answer that each limit would give. It charges nothing and counts nothing. The error
// wraps ErrKey if no request can have the key.
func (g *Gate) Explain(ctx context.Context, req Request) (e Explanation, err error) {
	if req.Key, err = g.Key(req.Policy, req.Key); err != nil {
		return e, err
	}
	s, part, err := g.part(req)
	if err != nil {
		return e, err
	}
	e, err = g.explain(ctx, s, part)
	if s.order[part.Policy].listed && !part.Address.IsValid() && e.Ruling == nil && e.By != policy.ByBlockList {
		e.Note = addressNote
	}
	return e, err
}

// part returns the part of a request by its key.
func (g *Gate) part(req Request) (s *snapshot, part engine.Part, err error) {
	s = g.current.Load()
	if err = s.fill(&req, &part); err == nil && !req.Address.IsValid() {
		part.Address = s.order[part.Policy].addressIn(req.Key)
	}
	return s, part, err
}

// Key returns the key that an operator's text names: itself, unless that is in quotes because the key is not UTF-8. The error wraps ErrKey
// if no request can have the key, and for a prefix of addresses.
func (g *Gate) Key(policy, text string) (string, error) {
	_, read, err := g.read(policy, text)
	if err == nil && read.Prefix.IsValid() {
		err = fmt.Errorf("%w: it is a prefix, whose addresses have keys of their own; give one address", ErrKey)
	}
	return read.Key, err
}

// read returns a policy, and the key or prefix that an operator's text names.
func (g *Gate) read(policy, text string) (p *livePolicy, read keyform.Match, err error) {
	s := g.current.Load()
	if p, err = s.find(policy); err != nil {
		return nil, read, err
	}
	if read, err = s.set.ReadKey(p.index, text); err != nil {
		return nil, read, fmt.Errorf("%w: the key %w", ErrKey, err)
	}
	return p, read, nil
}

// route returns which limits, list or ruling decide a part.
func (g *Gate) route(s *snapshot, part *engine.Part) Explanation {
	p := s.order[part.Policy]
	e := Explanation{Policy: p.Name, Key: part.Key, Shadow: p.Shadow, Failure: s.set.Mode(p.index).String()}
	var override int
	e.By, override, e.List = s.set.Route(*part)
	e.Plan, e.Override = s.planOf(part, e.By, override)
	if key, is := s.set.RulingOf(p.index, part.Key); is {
		e.Ruling = ruled.Find(g.rulings(), p.Name, key)
		e.Plan = "" // the ruling takes precedence
	}
	return e
}

// explain returns what would decide a part.
func (g *Gate) explain(ctx context.Context, s *snapshot, part engine.Part) (Explanation, error) {
	p, e := s.order[part.Policy], g.route(s, &part)
	e.Refused = e.By == policy.ByBlockList || e.By == policy.ByRuling
	if e.By == policy.ByLimits {
		var v policy.Decision
		if s.set.Decide(ctx, rule.Peek, &part, &v); v.Err != nil {
			return Explanation{}, v.Err
		}
		e.Refused, e.Source, e.Limits = !v.Decision.Allowed, SourceOf(v.Decision.Flags), explainLimits(&v)
		e.Penalty, e.slots = v.Penalty.Microseconds(), slices.ContainsFunc(v.Limits, isInFlight)
	}
	e.Allowed = !e.Refused || p.Shadow
	return e, nil
}

// planOf returns the name of the plan that decides a part, or the override if an override decides. To the engine, plans
// by key are overrides after those of the file.
func (s *snapshot) planOf(part *engine.Part, by policy.By, index int) (plan, override string) {
	p := s.order[part.Policy]
	if index >= len(p.Overrides) {
		return p.AllOverrides()[index].Key, ""
	}
	if index >= 0 {
		return "", p.Overrides[index].Key
	}
	if by != policy.ByLimits && by != policy.ByUnlimited || s.set.Overridden(part.Policy, part.Key) { // a list or a ruling decides
		return "", ""
	}
	return part.Plan.Name, ""
}

// RequestExplanation is the result of ExplainRequest. Like an Explanation, it is for operators who may see keys.
type RequestExplanation struct {
	Allowed          bool          `json:"allowed"`
	Rejected         string        `json:"rejected,omitempty"` // why the listener rejects it, whatever the policies decide
	Policy           string        `json:"policy,omitempty"`   // that decides; empty if none matches
	By               policy.By     `json:"by"`
	Source           string        `json:"source,omitempty"`    // as in an Explanation
	RetryAfterMicros *int64        `json:"retry_after_us"`      // null means never
	Policies         []Explanation `json:"policies"`            // of those that match
	Exempting        []string      `json:"exempting,omitempty"` // that match, and exempt the request by a route
	NotMatching      []string      `json:"not_matching,omitempty"`
}

// ExplainRequest returns which policies apply to a request, by which keys, and what CheckRequest would decide, or HoldRequest
// if requests run here. It charges nothing and counts nothing.
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
	all.Allowed, all.By, all.RetryAfterMicros = true, policy.ByUnlimited, &retry
	if len(all.Policies) == 0 {
		all.Policies = []Explanation{}
		return all, nil
	}
	var v policy.Decision
	request.Decide(ctx, rule.Peek, &v)
	if err := s.finish(&v, r); err != nil {
		return all, err
	}
	all.Allowed, all.Policy, all.By = v.Decision.Allowed, v.Policy, v.By
	if v.By == policy.ByLimits {
		all.Source = SourceOf(v.Decision.Flags)
	}
	for _, e := range all.Policies {
		if Closed(&v) && e.Source == all.Source && !e.Shadow { // it refuses for all that decide with it
			all.Policy = e.Policy
			break
		}
	}
	if p := g.withoutSlots(all.Policies); p != "" {
		all.Allowed, all.Policy = false, ""
		all.Rejected = "/v1/check answers 500, because the policy " + p + " has an in-flight limit, and " + ErrSlots.Error() + "; slidegate proxy holds slots itself"
	}
	if v.Decision.RetryAfter == slidegate.Never {
		all.RetryAfterMicros = nil
	} else if !v.Decision.Allowed {
		retry = v.Decision.RetryAfter.Microseconds()
	}
	return all, nil
}

// withoutSlots returns the policy that makes CheckRequest fail because it has an in-flight limit, or "".
func (g *Gate) withoutSlots(policies []Explanation) string {
	for _, e := range policies {
		switch {
		case e.Shadow:
		case g.opts.Requests || e.Refused && e.By != policy.ByLimits: // slots are held, or it refuses first
			return ""
		case e.slots:
			return e.Policy
		}
	}
	return ""
}

// explainLimits returns the answer of each limit.
func explainLimits(v *policy.Decision) []ExplainedLimit {
	answers := v.Decision.Answers
	if answers == nil {
		d := &v.Decision
		answers = []rule.Answer{{Allowed: d.Allowed, Remaining: d.Remaining, RetryAfter: rule.Never, ResetAfter: rule.Micros(d.ResetAfter.Microseconds()), Flags: d.Flags}}
		if d.RetryAfter != slidegate.Never {
			answers[0].RetryAfter = rule.Micros(d.RetryAfter.Microseconds())
		}
	}
	limits := make([]ExplainedLimit, len(v.Limits))
	for i, limit := range v.Limits {
		limits[i] = ExplainLimit(limit, &answers[i])
	}
	return limits
}

// ExplainLimit describes the answer of a limit.
func ExplainLimit(limit slidegate.Limit, a *rule.Answer) ExplainedLimit {
	e := ExplainedLimit{
		Limit: limit.String(), Name: limit.Name, Allowed: a.Allowed, Quota: limit.Quota,
		ResetAfterMicros: int64(a.ResetAfter),
	}
	if a.Flags&(rule.FallbackOpen|rule.FallbackClosed) == 0 {
		remaining := a.Remaining
		e.Remaining = &remaining
	}
	if a.RetryAfter != rule.Never {
		retry := int64(a.RetryAfter)
		e.RetryAfterMicros = &retry
	}
	return e
}

// Flags has the names of the flags of a decision, as clients, operators and metrics read them.
var Flags = []struct {
	Flag rule.Flags
	Name string
}{
	{rule.Inherited, "inherited"},
	{rule.ClockMoved, "clock_moved"},
	{rule.Cached, "cached"},
	{rule.FallbackOpen, "fallback_open"},
	{rule.FallbackClosed, "fallback_closed"},
	{rule.FallbackLocal, "fallback_local"},
	{rule.Leased, "leased"},
	{rule.Held, "held"},
	{rule.HoldsFull, "holds_full"},
	{rule.Repeated, "repeated"},
	{rule.NotOnce, "not_once"},
	{rule.NotDurable, "not_durable"},
}

// sources are the flags that name the source of a decision. That the store did not answer matters most.
var sources = []rule.Flags{
	rule.FallbackOpen | rule.FallbackClosed | rule.FallbackLocal, rule.Leased, rule.Cached,
}

// SourceOf names the source of a decision, in the words that metrics use.
func SourceOf(flags rule.Flags) string {
	for _, some := range sources {
		for _, one := range Flags {
			if flags&some&one.Flag != 0 {
				return one.Name
			}
		}
	}
	return "store"
}
