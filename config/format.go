package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config/errtext"
	"github.com/slidegate/slidegate/policy"
)

// Format writes a file as it was understood: with all defaults spelled out, and with the passwords of the store masked. Parse
// reads the result as the same file, except for these passwords. The defaults of a limit are written as a comment next to it,
// because headers and metrics name a limit without a name by its text.
func Format(f *File) []byte {
	var w formatter
	s := f.Service
	failure := cmp.Or(s.Failure, FailOpen)
	w.linef(0, "store: %s", strconv.Quote(errtext.Redact(cmp.Or(s.Store, "memory:"))))
	w.linef(0, "store_timeout: %s", durationText(cmp.Or(s.StoreTimeout, DefaultStoreTimeout)))
	w.linef(0, "failure: %s", failure)
	w.linef(0, "optimism: %d", cmp.Or(s.Optimism, policy.DefaultOptimism))
	var proxies []string
	for _, prefix := range s.TrustedProxies {
		proxies = append(proxies, strconv.Quote(addressText(prefix)))
	}
	if s.TrustedProxies == nil {
		w.linef(0, "# trusted_proxies: not given; only a proxy on this machine may call /v1/check, or none if tokens are required")
	} else {
		w.list(0, "trusted_proxies", proxies)
	}
	groups := s.AddressGroups
	w.linef(0, "address_groups: {ipv4: %d, ipv6: %d, embedded_ipv4: %t}",
		cmp.Or(groups.V4, clientip.DefaultV4), cmp.Or(groups.V6, clientip.DefaultV6), !groups.KeepEmbedded)
	if s.JWT.IsZero() {
		w.linef(0, "# jwt: not given, so keys and plans cannot use claims")
	} else {
		w.linef(0, "jwt: %s", jwtText(&s.JWT))
	}
	if name := f.defaultName(); name != "" {
		w.linef(0, "default_policy: %s", nameText(name))
	} else {
		w.linef(0, "# default_policy: none, so a client must name its policy")
	}
	w.refusal(0, s.Refusal)
	w.linef(0, "policies:")
	for i := range f.Policies {
		w.policy(&f.Policies[i], f.RefusalOf(&f.Policies[i]), failure)
	}
	return []byte(w.text.String())
}

// formatter writes the lines of a file.
type formatter struct {
	text   strings.Builder
	leased bool // all limits of the policy are leased, which is written once and not per limit
}

func (w *formatter) linef(depth int, format string, args ...any) {
	w.text.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&w.text, format, args...)
	w.text.WriteByte('\n')
}

// list writes a list of values that are already quoted.
func (w *formatter) list(depth int, name string, values []string) {
	if len(values) == 0 {
		w.linef(depth, "%s: []", name)
		return
	}
	w.linef(depth, "%s:", name)
	for _, value := range values {
		w.linef(depth+1, "- %s", value)
	}
}

func (w *formatter) policy(p *Policy, refusal Refusal, failure string) {
	w.linef(1, "%s:", nameText(p.Name))
	w.match(p)
	w.key(p.Key)
	w.linef(2, "cost: %s", costText(p.Cost))
	w.leased = p.leased()
	w.limits(2, "limits", p.Limits, nil)
	w.overrides(p.Overrides, p.Limits)
	w.plans(p)
	w.list(2, "allow", clients(p.Allow))
	w.list(2, "deny", clients(p.Deny))
	if p.Penalty > 0 {
		w.linef(2, "penalty: %s", durationText(p.Penalty))
	} else {
		w.linef(2, "# penalty: none")
	}
	w.refusal(2, refusal)
	w.linef(2, "shadow: %t", p.Shadow)
	w.linef(2, "failure: %s", cmp.Or(p.Failure, failure))
	if len(p.Candidate) > 0 {
		w.limits(2, "candidate", p.Candidate, nil)
	} else {
		w.linef(2, "# candidate: none")
	}
	w.linef(2, "lease: %t", w.leased)
}

// key writes a template, or a list of alternatives.
func (w *formatter) key(t Template) {
	switch {
	case t.implied:
		w.linef(2, "# key: not given; %s over HTTP, and whatever an application sends", strconv.Quote(t.String()))
		return
	case len(t.others) == 0:
		w.linef(2, "key: %s", strconv.Quote(t.String()))
		return
	}
	var texts []string
	for _, one := range t.Alternatives() {
		texts = append(texts, strconv.Quote(one.String()))
	}
	w.list(2, "key", texts)
}

// match writes which requests a policy applies to.
func (w *formatter) match(p *Policy) {
	switch {
	case len(p.Match) == 0:
		w.linef(2, "# match: every request")
	case len(p.Match) == 1 && p.Match[0].Cost == nil:
		w.linef(2, "match: %s", strconv.Quote(p.Match[0].Pattern))
	default:
		w.linef(2, "match:")
		for _, route := range p.Match {
			switch {
			case route.Unlimited:
				w.linef(3, "- {path: %s, unlimited: true}", strconv.Quote(route.Pattern))
			case route.Cost == nil:
				w.linef(3, "- %s", strconv.Quote(route.Pattern))
			default:
				w.linef(3, "- {path: %s, cost: %s}", strconv.Quote(route.Pattern), costText(*route.Cost))
			}
		}
	}
}

// costText writes a cost, in quotes unless it is a number.
func costText(cost Cost) string {
	if _, fixed := cost.Fixed(); fixed {
		return cost.String()
	}
	return strconv.Quote(cost.String())
}

// limits writes limits. Limits of an override that name no algorithm count as the policy's own limits, base, do.
func (w *formatter) limits(depth int, name string, limits, base []slidegate.Limit) {
	var texts []string
	for _, limit := range limits {
		limit.Lease = limit.Lease && !w.leased
		text := limit.String()
		if limit.Name != "" {
			text = strconv.Quote(text) // the name may contain anything
		}
		if defaults := defaultsOf(limit, base); defaults != "" {
			text += " # " + defaults
		}
		texts = append(texts, text)
	}
	w.list(depth, name, texts)
}

// defaultsOf returns the options that a limit leaves to their defaults.
func defaultsOf(limit slidegate.Limit, base []slidegate.Limit) string {
	bound, err := slidegate.Bind("", likeBase(limit, base))
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
	add(limit.Algorithm == slidegate.DefaultAlgorithm, "%v", made.Algorithm)
	add(window && limit.Segments == 0, "segments=1")
	add(window && limit.Overlap == slidegate.OverlapUp, "overlap=up")
	add((window || made.Algorithm == slidegate.FixedWindow) && limit.Anchor == slidegate.AnchorClock && !calendar, "anchor=clock")
	add(made.Algorithm == slidegate.TokenBucket && limit.Burst == 0, "burst=%d", limit.Quota)
	add(calendar && limit.Zone == "", "zone=%s", made.Zone)
	return strings.Join(words, " ")
}

func (w *formatter) overrides(overrides []Override, base []slidegate.Limit) {
	if len(overrides) == 0 {
		w.linef(2, "overrides: []")
		return
	}
	w.linef(2, "overrides:")
	for _, o := range overrides {
		name := "key"
		if o.Pattern {
			name = "keys"
		}
		w.linef(3, "- %s: %s", name, strconv.Quote(o.Key))
		if o.Unlimited {
			w.linef(4, "unlimited: true")
		} else {
			w.limits(4, "limits", o.Limits, base)
		}
	}
}

// plans writes the plans of a policy, and where the plan of a request is found.
func (w *formatter) plans(p *Policy) {
	if len(p.Plans) == 0 {
		w.linef(2, "# plans: none")
		return
	}
	w.linef(2, "plan: %s", strconv.Quote(p.PlanBy.String()))
	w.linef(2, "plans:")
	for _, plan := range p.Plans {
		w.linef(3, "%s:", strconv.Quote(plan.Name))
		if plan.Unlimited {
			w.linef(4, "unlimited: true")
		} else {
			w.limits(4, "limits", plan.Limits, p.Limits)
		}
	}
}

// clients returns the items of a list.
func clients(list List) (texts []string) {
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

// durationText is Duration.String without the zero seconds that a whole number of minutes ends in.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}
