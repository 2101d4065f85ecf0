package config

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config/internal/claims"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// boolean is the kind of a field that is true or false.
const boolean = "true or false"

// fileTable has the fields of a file.
var fileTable = table[File]{
	{
		"store", "a URL", "memory:", "Where the counts live. ${NAME} is an environment variable, ${file:/run/secrets/NAME} the content of a file.",
		func(r *reader, f *File, e yamlfile.Field) { f.Service.Store = r.store(e) },
		func(w *formatter, f *File) {
			w.field("store", strconv.Quote(errtext.Redact(cmp.Or(f.Service.Store, "memory:"))))
		},
	},
	{
		"store_timeout", "a duration, 1ms to 1m", "100ms", "How long a decision may take.",
		func(r *reader, f *File, e yamlfile.Field) { f.Service.StoreTimeout = r.storeTimeout(e) },
		func(w *formatter, f *File) {
			w.field("store_timeout", durationText(cmp.Or(f.Service.StoreTimeout, DefaultStoreTimeout)))
		},
	},
	{
		"failure", "`local`, `closed` or `open`", "local", "What decides when the store does not answer in time: each process counts (local), refuse (closed), or admit (open).",
		func(r *reader, f *File, e yamlfile.Field) { f.Service.Failure = r.failure(e) },
		func(w *formatter, f *File) { w.field("failure", w.mode()) },
	},
	{
		"trusted_proxies", "a list of addresses", "", "Proxies trusted to report a client's address: addresses, prefixes, loopback or private.",
		func(r *reader, f *File, e yamlfile.Field) { f.Service.TrustedProxies = r.proxies(e) },
		func(w *formatter, f *File) { w.proxies(f.Service.TrustedProxies) },
	},
	{
		"address_groups", "a mapping", "{ipv4: 32, ipv6: 64}", "How many leading bits of addresses make one client.",
		func(r *reader, f *File, e yamlfile.Field) {
			groupTable.in(r, e, e.Name, "address_groups: must be a mapping with prefix lengths, such as {ipv4: 32, ipv6: 64}, not %s", &f.Service.AddressGroups)
		},
		func(w *formatter, f *File) { w.groups(f.Service.AddressGroups) },
	},
	{
		"jwt", "a mapping", "", "How bearer tokens are verified, for claim:NAME.",
		func(r *reader, f *File, e yamlfile.Field) { f.Service.JWT = r.jwt(e) },
		func(w *formatter, f *File) { w.jwt(&f.Service.JWT) },
	},
	{
		"default_policy", "a name", "the policy named default, or the only one", "The policy of clients that name none.",
		func(r *reader, _ *File, e yamlfile.Field) { r.chosen = e },
		func(w *formatter, f *File) {
			if name := f.defaultName(); name != "" {
				w.field("default_policy", nameText(name))
			} else {
				w.notef("default_policy: none, so a client must name its policy")
			}
		},
	},
	{
		"refusal", "a mapping", "the default texts", "The texts and the status of refusals, for policies without their own.",
		func(r *reader, f *File, e yamlfile.Field) { r.refusal(e, &f.Service.Refusal) },
		func(w *formatter, f *File) { w.refusal(&f.Service.Refusal) },
	},
	{
		"envoy", "a mapping", "", "Rules of Envoy's rate limit service, for `slidegate serve`.",
		func(r *reader, f *File, e yamlfile.Field) {
			envoyTable.in(r, e, "envoy", "envoy: must be a mapping with files or xds, not %s; write {files: [rules.yaml]}, say", &f.Envoy)
		},
		func(w *formatter, f *File) { w.envoy(&f.Envoy) },
	},
	{
		"policies", "a mapping of names to policies", "", "The policies by their names.",
		func(r *reader, f *File, e yamlfile.Field) { f.Policies = append(f.Policies, r.policies(e)...) },
		func(w *formatter, f *File) { w.policies(f) },
	},
}

// policyTable has the fields of a policy.
var policyTable = table[Policy]{
	{
		"match", "a pattern, or a list", "every request", "Which requests the policy applies to, as patterns of Go's http.ServeMux.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Match = r.match(e) },
		(*formatter).match,
	},
	{
		"key", "a template, or a list", "{address}", "Who is limited: a field of the request, or a text with fields in braces; of a list, the first that is present.",
		func(r *reader, p *Policy, e yamlfile.Field) {
			p.Key = r.key(e)
			r.useClaims(e.ValueAt(), p.Key.Fields()...)
		},
		func(w *formatter, p *Policy) { w.key(p.Key) },
	},
	{
		"cost", "a whole number, `header:NAME`, `bytes` or `field:PATH`", "1", "How many units a request takes.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Cost = r.cost(e) },
		func(w *formatter, p *Policy) { w.field("cost", costText(p.Cost)) },
	},
	{
		"limits", "a list of limits", "", "The limits. All admit and all are charged, or none is.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Limits = r.limits(e) },
		func(w *formatter, p *Policy) { w.limits(p.Limits) },
	},
	{
		"overrides", "a list of overrides", "none", "Other limits for some keys. The first match decides.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Overrides = r.overrides(e) },
		func(w *formatter, p *Policy) { w.overrides(p) },
	},
	{
		"overrides_file", "a path", "none", "A file with such a list instead, relative to this file.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Overrides = r.overridesFile(e) },
		nil, // Format writes the overrides
	},
	{
		"plan", "`header:NAME`, `claim:NAME`, `user` or `key`", "none", "Where to find the plan of a request.",
		func(r *reader, p *Policy, e yamlfile.Field) {
			p.PlanBy = r.planBy(e)
			r.useClaims(e.ValueAt(), p.PlanBy)
		},
		nil, // written with the plans
	},
	{
		"plans", "a mapping of names to plans", "none", "Other limits by the name of the plan, in which * matches any run of bytes. The first match decides.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Plans = r.plans(e) },
		(*formatter).plans,
	},
	{
		"allow", "a list of addresses and keys", "none", "Clients that are admitted and charged nothing.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Allow = r.list(e) },
		func(w *formatter, p *Policy) { w.list("allow", clients(p.Allow)) },
	},
	{
		"block", "a list of addresses and keys", "none", "Clients that are refused, even if allowed.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Block = r.list(e) },
		func(w *formatter, p *Policy) { w.list("block", clients(p.Block)) },
	},
	{
		"penalty", "a duration", "none", "How long a key is refused after it exceeded the limits. Not with leases.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Penalty = r.penalty(e) },
		func(w *formatter, p *Policy) {
			if p.Penalty > 0 {
				w.field("penalty", durationText(p.Penalty))
			}
		},
	},
	{
		"wait", "a duration", "none", "How long a request may wait in line until the limits admit it, instead of being refused at once. Not with a penalty or count_refused.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Wait = r.wait(e) },
		func(w *formatter, p *Policy) {
			if p.Wait > 0 {
				w.field("wait", durationText(p.Wait))
			}
		},
	},
	{
		"refusal", "a mapping", "that of the file", "The texts and the status of refusals.",
		func(r *reader, p *Policy, e yamlfile.Field) { r.refusal(e, &p.Refusal) },
		func(w *formatter, p *Policy) {
			refusal := w.file.refusalOf(p)
			w.refusal(&refusal)
		},
	},
	{
		"shadow", boolean, "false", "Count and report, but refuse nothing.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Shadow = r.Bool(e) },
		func(w *formatter, p *Policy) { w.field("shadow", p.Shadow) },
	},
	{
		"failure", "as for the file", "that of the file", "What decides when the store does not answer in time.",
		func(r *reader, p *Policy, e yamlfile.Field) { p.Failure = r.failure(e) },
		func(w *formatter, p *Policy) { w.field("failure", cmp.Or(p.Failure, w.mode())) },
	},
	{
		"lease", boolean, "false", "All limits of the policy are leased.",
		func(r *reader, _ *Policy, e yamlfile.Field) {
			if r.Bool(e) {
				r.leaseAt = e.At
			}
		},
		func(w *formatter, _ *Policy) { w.field("lease", w.leased) },
	},
}

// routeTable has the fields of a pattern in match.
var routeTable = table[Route]{
	{
		"path", "a pattern", "", "A pattern of Go's http.ServeMux.",
		func(r *reader, route *Route, e yamlfile.Field) { route.Pattern, _ = r.pattern(e) }, nil,
	},
	{
		"cost", "as for the policy", "that of the policy", "How many units such a request takes.",
		func(r *reader, route *Route, e yamlfile.Field) {
			cost := r.cost(e)
			route.Cost = &cost
		}, nil,
	},
	{
		"unlimited", boolean, "false", "Whether the policy does not apply to these requests.",
		func(r *reader, route *Route, e yamlfile.Field) { route.Unlimited = r.Bool(e) }, nil,
	},
}

// overrideTable has the fields of an override.
var overrideTable = table[policy.Override]{
	{
		"key", "a key", "", "The key, as requests have it.",
		func(r *reader, o *policy.Override, e yamlfile.Field) { o.Key = r.overrideKey(e) }, nil,
	},
	{
		"keys", "a pattern", "", "A pattern of keys instead, in which * matches any run of bytes.",
		func(r *reader, o *policy.Override, e yamlfile.Field) { o.Key, o.Pattern = r.overrideKey(e), true }, nil,
	},
	{
		"limits", "a list of limits", "", "The limits of these keys.",
		func(r *reader, o *policy.Override, e yamlfile.Field) { o.Limits = r.limits(e) }, nil,
	},
	{
		"unlimited", boolean, "false", "No limits for these keys.",
		func(r *reader, o *policy.Override, e yamlfile.Field) { o.Unlimited = r.Bool(e) }, nil,
	},
}

// planTable has the fields of a plan.
var planTable = table[policy.Plan]{
	{
		"limits", "a list of limits", "", "The limits of requests with this plan.",
		func(r *reader, p *policy.Plan, e yamlfile.Field) { p.Limits = r.limits(e) }, nil,
	},
	{
		"unlimited", boolean, "false", "No limits for requests with this plan.",
		func(r *reader, p *policy.Plan, e yamlfile.Field) { p.Unlimited = r.Bool(e) }, nil,
	},
}

// limitTable has the fields of a limit that is not written as a text.
var limitTable = table[slidegate.Limit]{
	{
		"name", "a text", "", "Its name in headers and metrics, which also distinguishes it from others of the same shape.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) { l.Name = r.limitName(e) }, nil,
	},
	{
		"quota", "a whole number", "", "How many units a window admits, or how many slots can be held at a time.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) { l.Quota = r.integer(e) }, nil,
	},
	{
		"window", "a duration", "", "Its length, such as 30s, 1m, 24h or 7d.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) {
			made := r.window(e)
			l.Window, l.Calendar = made.Window, made.Calendar
		}, nil,
	},
	{
		"algorithm", "a name", "", "How units are counted. Default: fixed-window with calendar; sliding-window with segments, overlap or anchor; otherwise a hard cap.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) {
			l.Algorithm = choice(r, e, "an algorithm", rule.Algorithms...)
		}, nil,
	},
	{
		"segments", "a whole number", "1", "How many parts a sliding window is divided into.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) {
			l.Segments = int(min(max(r.integer(e), -1), 1<<30)) // fits an int everywhere; Check rejects both ends
		}, nil,
	},
	{
		"overlap", "`up`, `down` or `whole`", "up", "How the partly covered oldest part counts: weighted and rounded up or down, or as a whole.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) {
			l.Overlap = choice(r, e, "an overlap", rule.OverlapUp, slidegate.OverlapDown, slidegate.OverlapWhole)
		}, nil,
	},
	{
		"anchor", "`clock` or `first`", "clock", "Where windows start: at multiples of the window, or with a key's first request.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) {
			l.Anchor = choice(r, e, "an anchor", rule.AnchorClock, slidegate.AnchorFirst)
		}, nil,
	},
	{
		"count_refused", boolean, "false", "Whether refused requests are charged too.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) { l.CountRefused = r.Bool(e) }, nil,
	},
	{
		"lease", boolean, "false", "A server charges units of busy keys in advance. Not for sliding logs and in-flight limits, nor with anchor first or count_refused. Without an algorithm the window must be at least 15s.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) {
			if l.Lease = r.Bool(e); !l.Lease {
				r.unleased = append(r.unleased, e.At)
			}
		}, nil,
	},
	{
		"burst", "a whole number", "the quota", "How many units a token bucket holds.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) { l.Burst = r.integer(e) }, nil,
	},
	{
		"hold", "a duration", "", "How long a reservation holds its units unless it is renewed, whatever the window is; they are charged when it is settled. Left out, they are charged at once. Not with lease, count_refused and in-flight.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) { l.Hold = r.window(e).Hold }, nil,
	},
	{
		"notify", "a list of percentages", "", "At which parts of the quota, or of the burst, the service logs and counts a key, such as [80%, 100%]. Not with lease, count_refused and in-flight.",
		func(r *reader, _ *slidegate.Limit, e yamlfile.Field) { r.percents = r.notify(e) }, nil,
	},
	{
		"ttl", "a duration", "", "How long a slot is held unless it is renewed, such as 30s. It replaces window.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) { l.Window = r.window(e).Window }, nil,
	},
	{
		"calendar", "`day`, `week`, `month` or `year`", "", "A calendar period. It replaces window.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) {
			l.Calendar = choice(r, e, "a calendar period", rule.Day, rule.Week, rule.Month, rule.Year)
		}, nil,
	},
	{
		"zone", "a time zone", "UTC", "Its time zone, such as Europe/Berlin.",
		func(r *reader, l *slidegate.Limit, e yamlfile.Field) {
			var ok bool
			if l.Zone, ok = r.Text(e); ok && l.Zone == "" {
				r.Problems.Addf(e.ValueAt(), "zone: is empty; write a time zone such as Europe/Berlin, or leave it out for UTC")
			}
		}, nil,
	},
}

// refusalTable has the fields of refusals.
var refusalTable = table[httplimit.Refusal]{
	{
		"type", "an absolute URI", "", "The type of the problem document (RFC 9457).",
		func(r *reader, made *httplimit.Refusal, e yamlfile.Field) {
			made.Type = r.refusalText(e, func(text string) httplimit.Refusal { return httplimit.Refusal{Type: text} })
		},
		func(w *formatter, of *httplimit.Refusal) { w.text("type", of.Type) },
	},
	{
		"title", "a text", "", "Its title, the same for all refusals of the type.",
		func(r *reader, made *httplimit.Refusal, e yamlfile.Field) {
			made.Title = r.refusalText(e, func(text string) httplimit.Refusal { return httplimit.Refusal{Title: text} })
		},
		func(w *formatter, of *httplimit.Refusal) { w.text("title", of.Title) },
	},
	{
		"detail", "a text", "", "What happened and what to do, with {retry_after} in seconds, {limit} and {policy}; {{ and }} are braces.",
		func(r *reader, made *httplimit.Refusal, e yamlfile.Field) {
			made.Detail = r.refusalText(e, func(text string) httplimit.Refusal { return httplimit.Refusal{Detail: text} })
		},
		func(w *formatter, of *httplimit.Refusal) { w.text("detail", of.Detail) },
	},
	{
		"status", "429, 402 or 403", "429", "The status of the response.",
		func(r *reader, made *httplimit.Refusal, e yamlfile.Field) { made.Status = r.refusalStatus(e) },
		func(w *formatter, of *httplimit.Refusal) {
			if of.Status != 0 {
				w.field("status", of.Status)
			}
		},
	},
}

// groupTable has the fields of address_groups.
var groupTable = table[clientip.Grouping]{
	{
		"ipv4", "1 to 32", "32", "The prefix length for IPv4.",
		func(r *reader, g *clientip.Grouping, e yamlfile.Field) { g.V4 = r.prefixLength(e, 32) }, nil,
	},
	{
		"ipv6", "1 to 128", "64", "The prefix length for IPv6.",
		func(r *reader, g *clientip.Grouping, e yamlfile.Field) { g.V6 = r.prefixLength(e, 128) }, nil,
	},
	{
		"embedded_ipv4", boolean, "true", "Addresses of NAT64, 6to4 and Teredo count as the IPv4 addresses in them.",
		func(r *reader, g *clientip.Grouping, e yamlfile.Field) { g.KeepEmbedded = !r.Bool(e) }, nil,
	},
}

// jwtTable has the fields of jwt.
var jwtTable = table[JWT]{
	{
		"keys", "an absolute path", "", "A JSON Web Key Set, or public keys or certificates in PEM.",
		func(r *reader, j *JWT, e yamlfile.Field) { r.jwtKeys(j, e) },
		func(w *formatter, j *JWT) { w.text("keys", j.KeysFile) },
	},
	{
		"algorithms", "a list of names", "all that the keys support", "The accepted signature algorithms.",
		func(r *reader, j *JWT, e yamlfile.Field) { j.Algorithms = r.algorithms(e, claims.Algorithms()) },
		func(w *formatter, j *JWT) {
			if len(j.Algorithms) > 0 {
				w.field("algorithms", "["+strings.Join(j.Algorithms, ", ")+"]")
			}
		},
	},
	{
		"audience", "a text", "", "The audience that tokens must have.",
		func(r *reader, j *JWT, e yamlfile.Field) { j.Audience, _ = r.Text(e) },
		func(w *formatter, j *JWT) { w.text("audience", j.Audience) },
	},
	{
		"issuer", "a text", "", "The issuer that tokens must have.",
		func(r *reader, j *JWT, e yamlfile.Field) { j.Issuer, _ = r.Text(e) },
		func(w *formatter, j *JWT) { w.text("issuer", j.Issuer) },
	},
	{
		"verified", boolean, "false", "The proxy in front has verified tokens already.",
		func(r *reader, j *JWT, e yamlfile.Field) { j.Verified = r.Bool(e) },
		func(w *formatter, j *JWT) {
			if j.Verified {
				w.field("verified", true)
			}
		},
	},
}

// mode returns the failure mode of the file.
func (w *formatter) mode() store.Mode { return cmp.Or(w.file.Service.Failure, store.FailLocal) }

// durationText is Duration.String without the zero seconds that a whole number of minutes ends in.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}
