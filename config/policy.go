package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// read reads a whole file, and adds its content to r.file. The result is valid only if there are no problems.
func (r *reader) read(text []byte) {
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
	for name, e := range fileTable.read(r, root, "the file", r.file) {
		switch {
		case e.Value == nil:
		case name == "policies":
			r.file.places[name] = place{r.name, e.At, e.ValueAt()}
		default:
			r.put(name, errtext.Quote(name), e)
		}
	}
}

func (r *reader) policies(e yamlfile.Field) (policies []Policy) {
	if !r.isMapping(e, "policies: must be a mapping of names to policies, not %s") {
		return nil
	}
	for _, e := range r.mapping(e.Value, "", nil) {
		if strings.ContainsFunc(e.Name, notInName) || e.Name == "" {
			r.Problems.Addf(e.At, "%s is not a valid name for a policy; use only letters, digits, - _ and .", errtext.Quote(e.Name))
		} else if len(e.Name) > engine.MaxName {
			r.Problems.Addf(e.At, "%s has %d bytes; use at most %d, since the name of a policy is written in headers", errtext.Quote(e.Name), len(e.Name), engine.MaxName)
		}
		if e.Value == nil || !r.isMapping(e, "the policy "+strings.ReplaceAll(errtext.Quote(e.Name), "%", "%%")+" must be a mapping with limits, not %s") {
			continue
		}
		r.put(policyLabel(e.Name), "the policy "+errtext.Quote(e.Name), e)
		policies = append(policies, r.policy(e))
	}
	return policies
}

// notInName reports whether c is invalid in the name of a policy: names are used in metrics, headers and commands.
func notInName(c rune) bool {
	letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	return !letter && c != '-' && c != '_' && c != '.'
}

// policy reads a policy, and checks what depends on several of its fields.
func (r *reader) policy(policy yamlfile.Field) Policy {
	p := Policy{Name: policy.Name, Key: fields.Default}
	named := len(r.namedKeys)
	r.written, r.unleased, r.costs, r.thresholds = nil, nil, nil, nil
	r.leaseAt, r.overridesFrom = yamlfile.Position{}, nil
	given := policyTable.read(r, policy.Value, "a policy", &p)
	label := policyLabel(p.Name)
	for name, e := range given {
		if e.Value != nil && r.file.places[label].file == r.name { // otherwise another file has this policy too
			r.put(label+name, name, e)
		}
	}
	r.checkPlans(&p, given)
	if e := given["overrides_file"]; given.has("overrides") && e.Value != nil {
		r.Problems.Addf(e.At, "overrides_file: cannot be combined with overrides; write all of them into the file")
	}
	if !given.has("limits") {
		r.Problems.Addf(policy.At,
			"the policy %s has no limits; write limits: and below it at least one, such as - 100/1m", errtext.Quote(p.Name))
	}
	if r.leaseAt.Line > 0 {
		r.leaseAll(r.leaseAt)
	}
	r.finishThresholds(&p)
	r.finishKeys(&p, named)
	if from := r.overridesFrom; from != nil {
		from.finishKeys(&p, 0)
	}
	r.checkCosts(&p)
	if p.Penalty > 0 {
		r.checkPenalty(&p, given["penalty"].ValueAt())
	}
	if p.Wait > 0 {
		r.checkWait(&p, given["wait"].ValueAt())
	}
	return p
}

// finishKeys completes the keys of a policy that were read before its template was known; named is how many keys of other policies
// precede them.
func (r *reader) finishKeys(p *Policy, named int) {
	for i := named; i < len(r.namedKeys); i++ {
		r.namedKeys[i].template = &p.Key
	}
}

// key reads a template, or a list of alternatives.
func (r *reader) key(e yamlfile.Field) fields.Template {
	if _, isList := e.Value.(*ast.SequenceNode); !isList {
		return r.template(e)
	}
	var templates []fields.Template
	items := r.items(e, "templates")
	before := len(r.Problems)
	for _, item := range items {
		templates = append(templates, r.template(item))
	}
	if len(r.Problems) > before {
		return fields.Template{}
	}
	t, wrong, err := fields.FirstOf(templates...)
	if err != nil {
		at := e.ValueAt()
		if wrong < len(items) {
			at = items[wrong].At
		}
		r.Problems.Addf(at, "key: %w", err)
	}
	return t
}

func (r *reader) template(e yamlfile.Field) fields.Template {
	if yamlfile.IsMapping(e.Value) {
		r.Problems.Addf(e.ValueAt(), "key: must be a string, not a mapping; "+
			`put it in quotes: "{address}", "header:Name"`)
		return fields.Template{}
	}
	text, ok := r.Text(e)
	if !ok {
		return fields.Template{}
	}
	t, err := fields.ParseTemplate(text)
	if err != nil {
		r.Problems.Addf(e.ValueAt(), "key: %w", err)
	}
	return t
}

func (r *reader) cost(e yamlfile.Field) fields.Cost {
	text, ok := r.Text(e)
	if !ok {
		return fields.Cost{}
	}
	c, err := fields.ParseCost(text)
	if err != nil {
		r.Problems.Addf(e.ValueAt(), "cost: %w", err)
	}
	r.costs = append(r.costs, positionedCost{e.ValueAt(), c})
	return c
}
