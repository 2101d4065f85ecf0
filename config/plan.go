package config

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/policy"
)

// FindPlan returns a function that finds the plan of a request: the first of Plans that matches the value of PlanBy; none for
// an empty value. The function is safe for concurrent use.
func (p *Policy) FindPlan() func(value string) (plan policy.Plan, found bool) {
	names := make([]string, len(p.Plans))
	for i, plan := range p.Plans {
		names[i] = plan.Name
	}
	finder := newFinder(names)
	return func(value string) (plan policy.Plan, found bool) {
		index, found := finder.find(value)
		if found {
			plan = p.Plans[index]
		}
		return plan, found
	}
}

// finder finds the first of some names, in which * matches any run of bytes, that matches a value.
type finder struct {
	exact    map[string]int
	patterns []string
	indexes  []int // of the patterns
}

func newFinder(names []string) *finder {
	f := &finder{exact: map[string]int{}}
	for i, name := range names {
		if strings.Contains(name, "*") {
			f.patterns, f.indexes = append(f.patterns, name), append(f.indexes, i)
		} else {
			f.exact[name] = i
		}
	}
	return f
}

// find returns the index of the name; nothing matches the empty value.
func (f *finder) find(value string) (index int, found bool) {
	if value == "" {
		return 0, false
	}
	index, found = f.exact[value]
	for i, pattern := range f.patterns {
		if found && index < f.indexes[i] {
			break
		}
		if keyform.Fits(pattern, value) {
			return f.indexes[i], true
		}
	}
	return index, found
}

// plansByKey reports whether the key of a request determines its plan.
func (p *Policy) plansByKey() bool { return len(p.Plans) > 0 && p.PlanBy.Kind == fields.Key }

// AllOverrides returns Overrides, followed by the plans that are chosen by key: to the engine these are overrides.
func (p *Policy) AllOverrides() []policy.Override {
	if !p.plansByKey() {
		return p.Overrides
	}
	all := slices.Clone(p.Overrides)
	for _, plan := range p.Plans {
		all = append(all, policy.Override{
			Key: plan.Name, Pattern: strings.Contains(plan.Name, "*"), Limits: plan.Limits, Unlimited: plan.Unlimited,
		})
	}
	return all
}

// RequestPlans returns the plans that are chosen by a field of the request, and not by its key.
func (p *Policy) RequestPlans() []policy.Plan {
	if p.plansByKey() {
		return nil
	}
	return p.Plans
}

// httpPlan returns the plan function for httplimit; nil if there are no plans.
func (p *Policy) httpPlan(from *source) func(*http.Request) (policy.Plan, error) {
	if len(p.RequestPlans()) == 0 {
		return nil
	}
	find, by := p.FindPlan(), p.PlanBy
	return func(r *http.Request) (policy.Plan, error) {
		if plan, found := find(string(from.valueOf(by, r))); found {
			return policy.Named(plan.Name), nil
		}
		return policy.Plan{}, nil
	}
}

// planKinds are the fields that can determine the plan of a request.
var planKinds = []fields.Kind{fields.Header, fields.Claim, fields.User, fields.Key}

// planBy reads where the plan of a request is found.
func (r *reader) planBy(e yamlfile.Field) (field fields.Field) {
	text, ok := r.Text(e)
	if !ok {
		return field
	}
	field, err := fields.Parse(text)
	if word, _, _ := strings.Cut(text, ":"); err != nil && slices.ContainsFunc(planKinds, func(k fields.Kind) bool { return k.String() == word }) {
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, err)
	} else if err != nil || !slices.Contains(planKinds, field.Kind) {
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, unknownPlanField(text))
	}
	return field
}

// unknownPlanField returns the error about a text that is not a field by which plans are found.
func unknownPlanField(text string) error {
	word, _, _ := strings.Cut(strings.Trim(text, "{}"), ":")
	var words []string
	for _, kind := range planKinds {
		words = append(words, kind.String())
	}
	hint := errtext.DidYouMean(word, words)
	if hint == "" && strings.Contains(text, "-") && !strings.Contains(text, ":") {
		hint = fmt.Sprintf("; write header:%s for a header", text)
	}
	return fmt.Errorf("%s is not a field for plans%s (%s)", errtext.Quote(text), hint, planForms())
}

// planForms lists the fields that can determine the plan of a request, for errors.
func planForms() string {
	var forms []string
	for _, kind := range planKinds {
		forms = append(forms, kind.Form())
	}
	return errtext.OneOf(forms)
}

// plans reads the plans of a policy. Their names are not shown in errors, since they may be keys.
func (r *reader) plans(e yamlfile.Field) (plans []policy.Plan) {
	if !r.isMapping(e, "plans: must be a mapping of names to plans, not %s") {
		return nil
	}
	var seen matches
	patterns := 0
	items := r.mapping(e.Value, "", nil)
	if len(items) == 0 {
		r.Problems.Addf(e.ValueAt(), "plans: is empty; write a name and its limits, such as pro: {limits: [1000/1m]}")
	}
	for _, item := range items {
		if item.Value == nil {
			continue
		}
		before := len(r.Problems)
		plan := r.plan(item)
		if len(r.Problems) > before || !r.checkPlanName(&seen, &patterns, item) {
			continue
		}
		if plan.Unlimited && isEveryKey(plan.Name) {
			r.warnings.Addf(item.At, "plans: %s lifts the limits of every request that names a plan, whatever it is; name some plans", errtext.Quote(plan.Name))
		}
		plans = append(plans, plan)
	}
	return plans
}

// checkPlanName checks the name of a plan, and reports whether it is valid.
func (r *reader) checkPlanName(seen *matches, patterns *int, item yamlfile.Field) bool {
	name := keyform.Match{Key: item.Name, Pattern: strings.Contains(item.Name, "*")}
	if name.Pattern {
		*patterns++
	}
	if item.Name == "" {
		r.Problems.Addf(item.At, "a plan has no name; write one, or a pattern such as team-*")
		return false
	}
	if err := checkPattern(item.Name, *patterns); err != nil {
		r.Problems.Addf(item.At, "plans: %w", err)
		return false
	}
	line, covered := seen.cover(name, &r.compared)
	switch {
	case r.compared > maxCompared:
		r.Problems.Addf(item.At, "too many plans to compare with one another; use fewer patterns")
		return false
	case covered:
		r.Problems.Addf(item.At, "this plan is never reached, since the one on line %d matches all of its names; "+
			"put it before that one, or leave it out", line)
		return false
	}
	seen.add(name, item.At.Line)
	return true
}

// plan reads one plan.
func (r *reader) plan(item yamlfile.Field) policy.Plan {
	plan := policy.Plan{Name: item.Name}
	given := planTable.in(r, item, "a plan", "a plan must be a mapping with limits, not %s; write {limits: [1000/1m]}, say, or {unlimited: true}", &plan)
	if given != nil {
		r.checkLimited(item, "plan", given, plan.Unlimited)
	}
	return plan
}

// checkPlans checks that a policy has both or neither of plan and plans, and that its plans can be reached.
func (r *reader) checkPlans(p *Policy, given given) {
	by, plans := given["plan"], given["plans"]
	switch {
	case by.Name != "" && plans.Name == "":
		r.Problems.Addf(by.At, "plan: has no plans to choose from; add plans: and below it names with limits, such as pro: {limits: [1000/1m]}")
	case by.Name == "" && plans.Name != "":
		r.Problems.Addf(plans.At, "plans: needs plan, the field that contains the plan of a request; add plan: header:X-Plan, say (%s)", planForms())
	}
	if p.plansByKey() && plans.Value != nil {
		items, _ := r.Fields(plans.Value)
		for _, item := range items {
			r.namedKeys = append(r.namedKeys, namedKey{at: item.At, field: "plans", key: item.Name})
		}
	}
}
