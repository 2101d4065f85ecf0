package config

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/rule"
)

// isEveryKey reports whether a pattern matches every key.
func isEveryKey(pattern string) bool { return pattern != "" && strings.Trim(pattern, "*") == "" }

// warnEveryone warns about an entry of a list that every client fits.
func (r *reader) warnEveryone(at yamlfile.Position, list, entry string) {
	effect := "nobody is limited"
	if list == "block" {
		effect = "everybody is refused"
	}
	if prefix, err := parseAddresses(entry); err == nil { // only addresses of one family
		effect += ", by IPv4 addresses"
		if prefix.Addr().Is6() {
			effect = strings.Replace(effect, "IPv4", "IPv6", 1)
		}
	}
	r.warnings.Addf(at, "%s: %s is every client, so %s; list single networks and keys", list, errtext.Quote(entry), effect)
}

// positionedCost is a cost, and where it is written.
type positionedCost struct {
	at   yamlfile.Position
	cost fields.Cost
}

// checkCosts reports fixed costs that no client of the policy can ever pay.
func (r *reader) checkCosts(p *Policy) {
	most := capacity(p.Limits)
	for _, o := range p.Overrides {
		most = max(most, capacityOf(o.Limits, o.Unlimited))
	}
	for _, plan := range p.Plans {
		most = max(most, capacityOf(plan.Limits, plan.Unlimited))
	}
	for _, c := range r.costs {
		if units, fixed := c.cost.Fixed(); fixed && units > most {
			r.Problems.Addf(c.at, "cost: %d is more than the limits of the policy ever admit at once, which is %d; no request would be admitted", units, most)
		}
	}
}

func capacityOf(limits []slidegate.Limit, unlimited bool) int64 {
	if unlimited {
		return math.MaxInt64
	}
	return capacity(limits)
}

// capacity returns the largest cost that limits admit together. In-flight limits take one slot, whatever the cost.
func capacity(limits []slidegate.Limit) int64 {
	least := int64(math.MaxInt64)
	for _, limit := range limits {
		if bound, err := adapter.Bind("", limit); err == nil && bound.Rule().Algorithm != rule.InFlight {
			least = min(least, bound.Rule().Capacity())
		}
	}
	return least
}

// exactPattern is a pattern that matches one path only, and its position.
type exactPattern struct {
	at      yamlfile.Position
	pattern string
}

// noteExact remembers a pattern that matches one path only, and any method. One that names a method is hardly a prefix.
func (r *reader) noteExact(at yamlfile.Position, pattern string) {
	if pattern != "" && !strings.HasSuffix(pattern, "/") && !strings.HasSuffix(pattern, "}") && !strings.ContainsAny(pattern, " \t") {
		r.exact = append(r.exact, exactPattern{at, pattern})
	}
}

// warnExact warns about patterns such as /api if no policy applies to the paths below.
func (r *reader) warnExact(file *File) {
	if len(r.exact) == 0 {
		return
	}
	var matchers []*match.Matcher
	for i := range file.Policies {
		matcher, err := match.New(file.Policies[i].Patterns()...)
		if err != nil {
			return
		}
		matchers = append(matchers, matcher)
	}
	for _, exact := range r.exact {
		host, path, _ := strings.Cut(exact.pattern, "/")
		below := &http.Request{Method: http.MethodGet, Host: host, URL: &url.URL{Path: "/" + path + "/x"}}
		if !slices.ContainsFunc(matchers, func(m *match.Matcher) bool { return m.Match(below) }) {
			r.warnings.Addf(exact.at, "match: %s does not match /%s/x, and no other policy does; write %s too if it is meant, or the method before the path if not",
				errtext.Quote(exact.pattern), path, errtext.Quote(exact.pattern+"/"))
		}
	}
}
