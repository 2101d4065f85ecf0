package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Format writes a file as it was understood: with all defaults spelled out, and with the passwords of the store masked. Parse
// reads the result as the same file, except for these passwords. The defaults of a limit are written as a comment next to it,
// because headers and metrics name a limit without a name by its text.
func Format(f *File) []byte {
	w := &formatter{file: f}
	fileTable.show(w, f)
	return []byte(w.lines.String())
}

// formatter writes the lines of a file.
type formatter struct {
	lines  strings.Builder
	file   *File
	depth  int  // of the mapping that is being written
	leased bool // all limits of the policy are leased, which is written once and not per limit

	thresholds []policy.Threshold // of the limits of the policy
}

func (w *formatter) linef(format string, args ...any) {
	w.lines.WriteString(strings.Repeat("  ", w.depth))
	fmt.Fprintf(&w.lines, format, args...)
	w.lines.WriteByte('\n')
}

// field writes a field whose value is on the same line.
func (w *formatter) field(name string, value any) { w.linef("%s: %v", name, value) }

// text writes a field whose value is a text, unless it is empty.
func (w *formatter) text(name, value string) {
	if value != "" {
		w.field(name, strconv.Quote(value))
	}
}

// notef writes a comment about a field that has no value.
func (w *formatter) notef(format string, args ...any) { w.linef("# "+format, args...) }

// mapping writes a field whose value is a mapping or a list, which content writes.
func (w *formatter) mapping(name string, content func()) {
	w.linef("%s:", name)
	w.depth++
	content()
	w.depth--
}

// list writes a list of values that are already quoted.
func (w *formatter) list(name string, values []string) {
	if len(values) == 0 {
		w.field(name, "[]")
		return
	}
	w.mapping(name, func() {
		for _, value := range values {
			w.linef("- %s", value)
		}
	})
}

func (w *formatter) proxies(proxies []netip.Prefix) {
	if proxies == nil {
		w.notef("trusted_proxies: not given; only a proxy on this machine may call /v1/check, or none if tokens are required")
		return
	}
	var texts []string
	for _, prefix := range proxies {
		texts = append(texts, strconv.Quote(addressText(prefix)))
	}
	w.list("trusted_proxies", texts)
}

func (w *formatter) groups(groups clientip.Grouping) {
	w.linef("address_groups: {ipv4: %d, ipv6: %d, embedded_ipv4: %t}",
		cmp.Or(groups.V4, clientip.DefaultV4), cmp.Or(groups.V6, clientip.DefaultV6), !groups.KeepEmbedded)
}

func (w *formatter) policies(f *File) {
	w.mapping("policies", func() {
		for i := range f.Policies {
			p := &f.Policies[i]
			w.leased, w.thresholds = p.leased(), p.Notify
			w.mapping(nameText(p.Name), func() { policyTable.show(w, p) })
		}
	})
}

// key writes a template, or a list of alternatives.
func (w *formatter) key(t fields.Template) {
	var texts []string
	for _, one := range t.Alternatives() {
		texts = append(texts, strconv.Quote(one.String()))
	}
	switch {
	case t.IsDefault():
		w.notef("key: not given; %s over HTTP, and whatever an application sends", texts[0])
	case len(texts) == 1:
		w.field("key", texts[0])
	default:
		w.list("key", texts)
	}
}

// match writes which requests a policy applies to.
func (w *formatter) match(p *Policy) {
	if len(p.Match) == 0 {
		return
	}
	if len(p.Match) == 1 && p.Match[0].Cost == nil {
		w.text("match", p.Match[0].Pattern)
		return
	}
	var texts []string
	for _, route := range p.Match {
		text := strconv.Quote(route.Pattern)
		switch {
		case route.Unlimited:
			text = fmt.Sprintf("{path: %s, unlimited: true}", text)
		case route.Cost != nil:
			text = fmt.Sprintf("{path: %s, cost: %s}", text, costText(*route.Cost))
		}
		texts = append(texts, text)
	}
	w.list("match", texts)
}

// costText writes a cost, in quotes unless it is a number.
func costText(cost fields.Cost) string {
	if _, fixed := cost.Fixed(); fixed {
		return cost.String()
	}
	return strconv.Quote(cost.String())
}

// limits writes limits.
func (w *formatter) limits(limits []slidegate.Limit) {
	var texts []string
	for _, limit := range limits {
		limit.Lease = limit.Lease && !w.leased
		text := limit.String() + thresholdText(w.thresholds, limit)
		if limit.Name != "" {
			text = strconv.Quote(text) // the name may contain anything
		}
		if defaults := defaultsOf(limit); defaults != "" {
			text += " # " + defaults
		}
		texts = append(texts, text)
	}
	w.list("limits", texts)
}

// defaultsOf returns the options that a limit leaves to their defaults.
func defaultsOf(limit slidegate.Limit) string {
	bound, err := adapter.Bind("", limit)
	if err != nil {
		return "" // Parse rejected it
	}
	made := bound.Rule()
	var words []string
	add := func(isDefault bool, format string, args ...any) {
		if isDefault {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	window := made.Algorithm == slidegate.SlidingWindow
	calendar := made.Calendar != 0
	add(made.Algorithm == rule.DefaultAlgorithm, "hard cap")
	add(limit.Algorithm != made.Algorithm, "%v", made.Algorithm)
	add(window && limit.Segments == 0, "segments=1")
	add(window && limit.Overlap == rule.OverlapUp, "overlap=up")
	add((window || made.Algorithm == slidegate.FixedWindow) && limit.Anchor == rule.AnchorClock && !calendar, "anchor=clock")
	add(made.Algorithm == slidegate.TokenBucket && limit.Burst == 0, "burst=%d", limit.Quota)
	add(calendar && limit.Zone == "", "zone=%s", made.Zone)
	return strings.Join(words, " ")
}

func (w *formatter) overrides(p *Policy) {
	if len(p.Overrides) == 0 {
		w.field("overrides", "[]")
		return
	}
	w.mapping("overrides", func() {
		for _, o := range p.Overrides {
			name := "key"
			if o.Pattern {
				name = "keys"
			}
			w.linef("- %s: %s", name, strconv.Quote(o.Key))
			w.depth++
			w.limitsOrNone(o.Limits, o.Unlimited)
			w.depth--
		}
	})
}

// limitsOrNone writes the limits of an override or a plan.
func (w *formatter) limitsOrNone(limits []slidegate.Limit, unlimited bool) {
	if unlimited {
		w.field("unlimited", true)
	} else {
		w.limits(limits)
	}
}

// plans writes the plans of a policy, and where the plan of a request is found.
func (w *formatter) plans(p *Policy) {
	if len(p.Plans) == 0 {
		return
	}
	w.text("plan", p.PlanBy.String())
	w.mapping("plans", func() {
		for _, plan := range p.Plans {
			w.mapping(strconv.Quote(plan.Name), func() { w.limitsOrNone(plan.Limits, plan.Unlimited) })
		}
	})
}

// clients returns the items of a list.
func clients(list policy.List) (texts []string) {
	for _, prefix := range list.Addresses {
		texts = append(texts, strconv.Quote(addressText(prefix)))
	}
	for _, key := range list.Keys {
		texts = append(texts, strconv.Quote(keyMark+key))
	}
	return texts
}

// nameText formats the name of a policy, in quotes if YAML would not read it as a string.
func nameText(name string) string {
	word := strings.ToLower(name)
	letter := word != "" && 'a' <= word[0] && word[0] <= 'z'
	if !letter || slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, word) {
		return strconv.Quote(name)
	}
	return name
}
