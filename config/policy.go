package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/config/errtext"
	"github.com/slidegate/slidegate/config/yamlfile"
	"github.com/slidegate/slidegate/policy"
)

var (
	fileFields = []string{
		"store", "store_timeout", "failure", "optimism", "trusted_proxies", "address_groups", "jwt", "default_policy", "refusal", "policies",
	}
	policyFields = []string{
		"match", "key", "cost", "limits", "overrides", "plan", "plans", "allow", "deny", "penalty", "refusal", "shadow", "failure", "candidate",
		"lease",
	}
)

// read reads a whole file, and adds its content to file. The result is valid only if there are no problems.
func (r *reader) read(text []byte, file *File) {
	root, at := r.Document(text, "write policies: and below it at least one policy with limits",
		`put all policies into one, and remove this "---"`)
	r.top = at
	if root == nil {
		return
	}
	if !yamlfile.IsMapping(root) {
		r.Problems.Addf(at, "the file must be a mapping with policies, not %s", yamlfile.Describe(root))
		return
	}
	for _, e := range r.mapping(root, "the file", fileFields) {
		switch {
		case e.Value == nil:
			continue
		case e.Name == "jwt":
			file.Service.JWT = r.jwt(e)
		case e.Name == "policies":
			file.Policies = append(file.Policies, r.policies(e)...)
			continue
		case e.Name == "default_policy":
			r.chosen = e
		default:
			r.serviceField(&file.Service, e)
		}
		r.given = append(r.given, e)
	}
}

func (r *reader) policies(e yamlfile.Field) (policies []Policy) {
	if !yamlfile.IsMapping(e.Value) {
		r.Problems.Addf(e.ValueAt(), "policies: must be a mapping of names to policies, not %s", yamlfile.Describe(e.Value))
		return nil
	}
	for _, e := range r.mapping(e.Value, "", nil) {
		if strings.ContainsFunc(e.Name, notInName) || e.Name == "" {
			r.Problems.Addf(e.At, "%s is not a valid name for a policy; use only letters, digits, - _ and .", errtext.Quote(e.Name))
		} else if len(e.Name) > policy.MaxName {
			r.Problems.Addf(e.At, "%s has %d bytes; use at most %d, since the name of a policy is written in headers", errtext.Quote(e.Name), len(e.Name), policy.MaxName)
		}
		if e.Value == nil {
			continue
		}
		if !yamlfile.IsMapping(e.Value) {
			r.Problems.Addf(e.ValueAt(), "the policy %s must be a mapping with limits, not %s",
				errtext.Quote(e.Name), yamlfile.Describe(e.Value))
			continue
		}
		r.given = append(r.given, yamlfile.Field{Name: policyMark + e.Name, At: e.At})
		policies = append(policies, r.policy(e))
	}
	return policies
}

// notInName reports whether c is invalid in the name of a policy: names are used in metrics, headers and commands.
func notInName(c rune) bool {
	letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	return !letter && c != '-' && c != '_' && c != '.'
}

// defaultKey is the key of policies without one.
var defaultKey = func() Template {
	t, err := ParseTemplate("{address}")
	if err != nil {
		panic(err)
	}
	t.implied = true
	return t
}()

func (r *reader) policy(policy yamlfile.Field) Policy {
	p := Policy{Name: policy.Name, Key: defaultKey}
	hasLimits := false
	named, placed := len(r.namedKeys), len(r.placed)
	r.written, r.unleased, r.costs = nil, nil, nil
	var candidate, lease, penalty yamlfile.Position
	var planBy, plans yamlfile.Field
	for _, e := range r.mapping(policy.Value, "a policy", policyFields) {
		hasLimits = hasLimits || e.Name == "limits"
		switch e.Name {
		case "plan":
			planBy = e
		case "plans":
			plans = e
		}
		if e.Value == nil {
			continue
		}
		switch e.Name {
		case "candidate":
			candidate = e.ValueAt()
		case "penalty":
			penalty = e.ValueAt()
		case "lease":
			if r.Bool(e) {
				lease = e.At
			}
			continue
		}
		r.policyField(&p, e)
	}
	r.checkPlans(&p, planBy, plans)
	for i := named; i < len(r.namedKeys); i++ {
		r.namedKeys[i].template = &p.Key
	}
	for i := placed; i < len(r.placed); i++ {
		r.placed[i].template = &p.Key
	}
	if !hasLimits {
		r.Problems.Addf(policy.At,
			"the policy %s has no limits; write limits: and below it at least one, such as - 100/1m", errtext.Quote(p.Name))
	}
	if lease.Line > 0 {
		r.leaseAll(lease)
	}
	r.checkOverridden(p.Limits)
	r.checkCosts(&p)
	if p.Penalty > 0 {
		r.checkPenalty(&p, penalty)
	}
	if len(p.Candidate) > 0 && sameRules(p.Limits, p.Candidate) {
		r.Problems.Addf(candidate, "candidate: has the same limits as the policy; change one, or leave the candidate out")
	}
	return p
}

func (r *reader) policyField(p *Policy, e yamlfile.Field) {
	switch e.Name {
	case "match":
		p.Match = r.match(e)
	case "key":
		p.Key = r.key(e)
		r.useClaims(e.ValueAt(), p.Key.Fields()...)
	case "cost":
		p.Cost = r.cost(e)
	case "limits":
		p.Limits = r.limits(e)
	case "overrides":
		p.Overrides = r.overrides(e)
	case "plan":
		p.PlanBy = r.planBy(e)
		r.useClaims(e.ValueAt(), p.PlanBy)
	case "plans":
		p.Plans = r.plans(e)
	case "allow":
		p.Allow = r.list(e)
	case "deny":
		p.Deny = r.list(e)
	case "penalty":
		p.Penalty = r.penalty(e)
	case "refusal":
		p.Refusal = r.refusal(e)
	case "shadow":
		p.Shadow = r.Bool(e)
	case "failure":
		p.Failure = r.failure(e)
	case "candidate":
		p.Candidate = r.limits(e)
	}
}

// key reads a template, or a list of alternatives.
func (r *reader) key(e yamlfile.Field) Template {
	if _, isList := e.Value.(*ast.SequenceNode); !isList {
		return r.template(e)
	}
	var templates []Template
	items := r.items(e, "templates")
	before := len(r.Problems)
	for _, item := range items {
		templates = append(templates, r.template(item))
	}
	if len(r.Problems) > before {
		return Template{}
	}
	t, wrong, err := firstOf(templates)
	if err != nil {
		at := e.ValueAt()
		if wrong < len(items) {
			at = items[wrong].At
		}
		r.Problems.Addf(at, "key: %w", err)
	}
	return t
}

func (r *reader) template(e yamlfile.Field) Template {
	if yamlfile.IsMapping(e.Value) {
		r.Problems.Addf(e.ValueAt(), "key: must be a string, not a mapping; "+
			`write quotes around a template that begins with a brace: "{address}"`)
		return Template{}
	}
	text, ok := r.Text(e)
	if !ok {
		return Template{}
	}
	t, err := parseTemplate(text)
	if err != nil {
		r.Problems.Addf(e.ValueAt(), "key: %w", err)
	}
	return t
}

func (r *reader) cost(e yamlfile.Field) Cost {
	text, ok := r.Text(e)
	if !ok {
		return Cost{}
	}
	c, err := parseCost(text)
	if err != nil {
		r.Problems.Addf(e.ValueAt(), "cost: %w", err)
	}
	r.costs = append(r.costs, positionedCost{e.ValueAt(), c})
	return c
}
