package report

import (
	"slices"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// notes returns what the traffic does not show about the policies, without duplicates.
func (d *Document) notes() (all []string) {
	all = slices.Clone(d.Notes)
	for i := range d.Sources {
		for _, note := range d.Sources[i].Notes {
			if !slices.Contains(all, note) {
				all = append(all, note)
			}
		}
	}
	return all
}

// unmatchedWords describes how many requests no policy applies to.
func unmatchedWords(n int64) string {
	return "No replayed policy applies to " + count(n, "request") + "; no figure includes them."
}

// policyNames lists the policies: "the policy login", "the policies api, login and search".
func policyNames(f *replay.Findings) string {
	names := make([]string, len(f.Policies))
	for i := range f.Policies {
		names[i] = visible(f.Policies[i].Name, keyWidth)
	}
	last := len(names) - 1
	if last == 0 {
		return "the policy " + names[0]
	}
	return "the policies " + strings.Join(names[:last], ", ") + " and " + names[last]
}

// subject returns the subject of a report: "10/1s and 1000/1h", or the names of the policies.
func subject(f *replay.Findings) string {
	if len(f.Policies) > 0 {
		return policyNames(f)
	}
	return limitTexts(&f.Outcome)
}

// limitName names a limit among several: "100/1m", "login: 3/1h", "api (override team-*): 500/1m".
func limitName(f *replay.Findings, l *replay.LimitOutcome) string {
	var name string
	if len(f.Policies) > 1 {
		name = visible(l.Policy, keyWidth)
	}
	switch {
	case l.Override != "" && name == "":
		name = "override " + key(l.Override)
	case l.Override != "":
		name += " (override " + key(l.Override) + ")"
	case l.Plan != "" && name == "":
		name = "plan " + key(l.Plan)
	case l.Plan != "":
		name += " (plan " + key(l.Plan) + ")"
	}
	if l.Shadow {
		name += " (shadow)"
	}
	if name != "" {
		name += ": "
	}
	return name + visible(l.Limit, keyWidth)
}

// ownLimits returns the limits of keys without an override, for requests without a plan.
func ownLimits(o *replay.Outcome) (own []replay.LimitOutcome) {
	for _, l := range o.Limits {
		if l.Override == "" && l.Plan == "" {
			own = append(own, l)
		}
	}
	return own
}

// listsMatter reports whether lists or overrides decided any request, so that their counts are worth a column.
func listsMatter(f *replay.Findings) bool {
	return slices.ContainsFunc(f.Policies, func(p replay.PolicyOutcome) bool {
		return p.AllowList+p.DenyList+p.Unlimited+p.Overridden > 0
	})
}

// textPolicies prints the outcome of each policy, if it says more than the totals.
func textPolicies(b *strings.Builder, f *replay.Findings) {
	lists := listsMatter(f)
	if len(f.Policies) < 2 && !lists {
		return
	}
	heading(b, "By policy")
	t := table{left: 1}
	cells := []string{"", "requests", "denied", "%"}
	if lists {
		cells = append(cells, "deny list", "allow list", "unlimited", "other limits")
	}
	t.add(cells...)
	shadow := false
	for i := range f.Policies {
		p := &f.Policies[i]
		name := visible(p.Name, keyWidth)
		if p.Shadow {
			name, shadow = name+" (shadow)", true
		}
		cells := []string{name, number(p.Requests), number(p.Denied), percent(p.Denied, p.Requests)}
		if lists {
			cells = append(cells, number(p.DenyList), number(p.AllowList), number(p.Unlimited), number(p.Overridden))
		}
		t.add(cells...)
	}
	t.write(b)
	if shadow {
		wrap(b, "  "+shadowWords)
	}
}

// shadowWords explains the counts of a shadow policy.
const shadowWords = "A shadow policy refuses nothing: its denials are counted only here."

// limitNames returns the names of the limits of a page, in their order.
func limitNames(f *replay.Findings) (names []string) {
	for i := range f.Outcome.Limits {
		names = append(names, limitName(f, &f.Outcome.Limits[i]))
	}
	return names
}

// keyName returns a key as it is shown, with its policy if there are several.
func keyName(f *replay.Findings, policy, name string) string {
	if len(f.Policies) > 1 && policy != "" {
		return visible(policy, keyWidth) + ": " + key(name)
	}
	return key(name)
}
