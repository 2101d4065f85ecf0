package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate"
)

var (
	fileFields   = []string{"policies"}
	policyFields = []string{"key", "cost", "limits"}
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
	for _, e := range r.mapping(root, "the file", fileFields) {
		if e.value != nil {
			file.Policies = r.policies(e)
		}
	}
	if len(file.Policies) == 0 && len(r.problems) == before {
		r.problems.addf(at, "there are no policies; write policies: and below it at least one policy with limits")
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
	for _, e := range r.mapping(policy.value, "a policy", policyFields) {
		hasLimits = hasLimits || e.name == "limits"
		if e.value == nil {
			continue
		}
		switch e.name {
		case "key":
			p.Key = r.key(e)
		case "cost":
			p.Cost = r.cost(e)
		case "limits":
			p.Limits = r.limits(e)
		}
	}
	if !hasLimits {
		r.problems.addf(policy.at,
			"the policy %s has no limits; write limits: and below it at least one, such as - 100/1m", quote(p.Name))
	}
	return p
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

func (r *reader) limits(e entry) (limits []slidegate.Limit) {
	list, ok := e.value.(*ast.SequenceNode)
	switch {
	case !ok:
		r.problems.addf(positionOf(e.value), "limits: must be a list, such as [100/1m, 1000/1h], not %s", nameOf(e.value))
		return nil
	case len(list.Values) == 0:
		r.problems.addf(positionOf(e.value), "limits: there must be at least one, such as 100/1m")
		return nil
	}
	lines := map[string]int{} // where the limit with this prefix is: limits with the same one share their state
	for _, item := range list.Values {
		if !r.visit(item) {
			break
		}
		limit, ok := r.limit(item)
		if !ok {
			continue
		}
		at := positionOf(item)
		bound, err := slidegate.Bind("", limit)
		if err != nil {
			r.problems.add(at, err)
			continue
		}
		if line, shared := lines[bound.Prefix()]; shared {
			r.problems.addf(at, "the limit %q would share its counts with the one in line %d, which has the same name and shape; "+
				"give it another name", limit, line)
			continue
		}
		lines[bound.Prefix()] = at.line
		limits = append(limits, limit)
	}
	return limits
}
