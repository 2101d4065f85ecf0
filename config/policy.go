package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
)

var (
	fileFields = []string{
		"store", "store_timeout", "failure", "trusted_proxies", "default_policy", "policies",
	}
	policyFields = []string{
		"match", "key", "cost", "limits", "overrides", "allow", "deny", "shadow", "failure", "candidate",
	}
)

// read reads a whole file. What it returns is of use only if there are no problems.
func (r *reader) read(text []byte) *File {
	file := &File{}
	root := r.document(text)
	if root == nil {
		return file
	}
	r.anchors = anchors{}
	ast.Walk(r.anchors, root)
	at := positionOf(root)
	if root = r.resolve(root); root == nil {
		return file
	}
	if !isMapping(root) {
		r.problems.addf(at, "the file must be a mapping with policies, not %s", nameOf(root))
		return file
	}
	before := len(r.problems)
	var chosen entry // which policy is the default: it can be looked for when all are known
	for _, e := range r.mapping(root, "the file", fileFields) {
		switch {
		case e.value == nil:
		case e.name == "policies":
			file.Policies = r.policies(e)
		case e.name == "default_policy":
			chosen = e
		default:
			r.serviceField(&file.Service, e)
		}
	}
	if len(file.Policies) == 0 && len(r.problems) == before {
		r.problems.addf(at, "there are no policies; write policies: and below it at least one policy with limits")
	}
	if chosen.value != nil {
		file.Service.Default = r.defaultPolicy(chosen, file.Policies)
	}
	return file
}

func isMapping(node ast.Node) bool {
	return node.Type() == ast.MappingType || node.Type() == ast.MappingValueType
}

func (r *reader) policies(e entry) (policies []Policy) {
	if !isMapping(e.value) {
		r.problems.addf(positionOf(e.value), "policies: must be a mapping of names to policies, not %s", nameOf(e.value))
		return nil
	}
	for _, e := range r.mapping(e.value, "", nil) {
		if strings.ContainsFunc(e.name, notInName) || e.name == "" {
			r.problems.addf(e.at, "%s is not a name for a policy; write letters, digits, - _ and . only", quote(e.name))
		}
		if e.value == nil {
			continue
		}
		if !isMapping(e.value) {
			r.problems.addf(positionOf(e.value), "the policy %s must be a mapping with limits, not %s",
				quote(e.name), nameOf(e.value))
			continue
		}
		policies = append(policies, r.policy(e))
	}
	return policies
}

// notInName tells whether a name of a policy cannot have this in it: names end up in metrics, headers and commands.
func notInName(c rune) bool {
	letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	return !letter && c != '-' && c != '_' && c != '.'
}

// defaultKey is the key of policies that do not say.
var defaultKey = func() Template {
	t, err := ParseTemplate("{address}")
	if err != nil {
		panic(err)
	}
	return t
}()

func (r *reader) policy(policy entry) Policy {
	p := Policy{Name: policy.name, Key: defaultKey}
	hasLimits := false
	var candidate position
	for _, e := range r.mapping(policy.value, "a policy", policyFields) {
		hasLimits = hasLimits || e.name == "limits"
		if e.value == nil {
			continue
		}
		if e.name == "candidate" {
			candidate = positionOf(e.value)
		}
		r.policyField(&p, e)
	}
	if !hasLimits {
		r.problems.addf(policy.at,
			"the policy %s has no limits; write limits: and below it at least one, such as - 100/1m", quote(p.Name))
	}
	if len(p.Candidate) > 0 && sameRules(p.Limits, p.Candidate) {
		r.problems.addf(candidate, "candidate: these are the limits that the policy has; change one, or leave the candidate out")
	}
	return p
}

func (r *reader) policyField(p *Policy, e entry) {
	switch e.name {
	case "match":
		p.Match = r.match(e)
	case "key":
		p.Key = r.key(e)
	case "cost":
		p.Cost = r.cost(e)
	case "limits":
		p.Limits = r.limits(e)
	case "overrides":
		p.Overrides = r.overrides(e)
	case "allow":
		p.Allow = r.list(e)
	case "deny":
		p.Deny = r.list(e)
	case "shadow":
		p.Shadow = r.truth(e)
	case "failure":
		p.Failure = r.failure(e)
	case "candidate":
		p.Candidate = r.limits(e)
	}
}

func (r *reader) key(e entry) Template {
	if isMapping(e.value) {
		r.problems.addf(positionOf(e.value), "key: must be a text, not a mapping; "+
			`write quotes around a template that begins with a brace: "{address}"`)
		return Template{}
	}
	text, ok := r.text(e)
	if !ok {
		return Template{}
	}
	t, err := parseTemplate(text)
	if err != nil {
		r.problems.addf(positionOf(e.value), "key: %w", err)
	}
	return t
}

func (r *reader) cost(e entry) Cost {
	text, ok := r.text(e)
	if !ok {
		return Cost{}
	}
	c, err := parseCost(text)
	if err != nil {
		r.problems.addf(positionOf(e.value), "cost: %w", err)
	}
	return c
}
