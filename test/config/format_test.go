package config_test

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// drawFile draws a valid file.
func drawFile(t *rapid.T) *config.File {
	file := &config.File{Service: config.Service{
		Store: rapid.SampledFrom([]string{"", "memory:", "redis://u:hunter2@h:1/0?a=b", "postgres://u@h/db?password=hunter2&x=%20",
			"redis+sentinel://:p@[::1]:1,b:2/m"}).Draw(t, "store"),
		StoreTimeout:   time.Duration(rapid.SampledFrom([]int64{0, 1, 50, 1500, 60_000}).Draw(t, "timeout")) * time.Millisecond,
		Failure:        rapid.SampledFrom([]store.Mode{0, store.FailOpen, store.FailClosed, store.FailLocal}).Draw(t, "failure"),
		TrustedProxies: drawAddresses(t, 1),
	}}
	names := rapid.SliceOfNDistinct(rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_.-]{1,6}`),
		rapid.SampledFrom([]string{"default", "null", "true", "-", "---", "5", "0x1", "1e3", "...", "n", "_"})), 1, 4, rapid.ID).Draw(t, "names")
	for _, name := range names {
		file.Policies = append(file.Policies, drawPolicy(t, name))
	}
	if rapid.Bool().Draw(t, "has default") {
		file.Service.Default = rapid.SampledFrom(names).Draw(t, "default")
	}
	return file
}

func drawPolicy(t *rapid.T, name string) config.Policy {
	key, err := fields.ParseTemplate(rapid.SampledFrom([]string{"address", "{user} {path}", "{{{header:X-Key}}}", "é\"\\{key}#"}).Draw(t, "key"))
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "several keys") {
		first, err := fields.ParseTemplate("header:X-Other")
		if err == nil {
			key, _, err = fields.FirstOf(first, key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cost := drawCost(t)
	p := config.Policy{
		Name: name, Key: key, Cost: cost, Limits: drawLimits(t, "limits", 100),
		Match:   drawRoutes(t),
		Allow:   policy.List{Addresses: drawAddresses(t, 0), Keys: drawKeys(t)},
		Block:   policy.List{Addresses: drawAddresses(t, 0), Keys: drawKeys(t)},
		Shadow:  rapid.Bool().Draw(t, "shadow"),
		Failure: rapid.SampledFrom([]store.Mode{0, store.FailOpen, store.FailClosed, store.FailLocal}).Draw(t, "failure"),
	}
	for _, key := range drawKeys(t) {
		o := policy.Override{Key: key, Pattern: strings.Contains(key, "*"), Unlimited: rapid.Bool().Draw(t, "unlimited")}
		if !o.Unlimited {
			o.Limits = drawLimits(t, "override", 1)
		}
		if !covered(p.Overrides, o) {
			p.Overrides = append(p.Overrides, o)
		}
	}
	p.Plans, p.PlanBy = drawPlans(t)
	return p
}

// covered reports whether an earlier override makes o unreachable, which Parse rejects.
func covered(earlier []policy.Override, o policy.Override) bool {
	return slices.ContainsFunc(earlier, func(e policy.Override) bool {
		return e.Key == o.Key || e.Pattern && keyform.Fits(e.Key, o.Key)
	})
}

// drawLimits draws up to three limits with quotas from least to least + 90, which do not share counts.
func drawLimits(t *rapid.T, label string, least int64) (limits []slidegate.Limit) {
	windows := rapid.SliceOfNDistinct(rapid.SampledFrom([]time.Duration{time.Millisecond, 90 * time.Second, time.Hour, 36 * time.Hour}),
		1, 3, rapid.ID).Draw(t, label)
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "a", "b c", "\"#: ~", "- x"}), len(windows), len(windows), rapid.ID).Draw(t, "names")
	for i, window := range windows {
		limit := slidegate.Limit{
			Name: names[i], Quota: rapid.Int64Range(least, least+90).Draw(t, "quota"),
			Window: window, Algorithm: rule.Algorithm(rapid.IntRange(0, 3).Draw(t, "algorithm")),
			CountRefused: rapid.Bool().Draw(t, "count refused"),
		}
		switch limit.Algorithm {
		case slidegate.SlidingWindow:
			limit.Segments = rapid.IntRange(0, 2).Draw(t, "segments")
			limit.Overlap = rule.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
		case slidegate.TokenBucket:
			limit.Burst = rapid.Int64Range(0, 5).Draw(t, "burst")
		}
		if limit.Algorithm != rule.DefaultAlgorithm { // a limit that the policy turns into a sliding log cannot be leased
			leased := limit
			if leased.Lease = rapid.Bool().Draw(t, "lease"); adapter.Check(leased) == nil {
				limit = leased
			}
		}
		limits = append(limits, limit)
	}
	return limits
}

func drawAddresses(t *rapid.T, least int) (all []netip.Prefix) {
	for range rapid.IntRange(0, 2).Draw(t, "addresses") {
		addr := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "IPv4")))
		if rapid.Bool().Draw(t, "is IPv6") {
			addr = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "IPv6"))).Unmap()
		}
		all = append(all, netip.PrefixFrom(addr, rapid.IntRange(least, addr.BitLen()).Draw(t, "bits")).Masked())
	}
	return all
}

// drawKeys draws keys as they are stored, which any key may be written as, and patterns of addresses.
func drawKeys(t *rapid.T) (keys []string) {
	for _, key := range rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[ab]{1,4}`), rapid.StringMatching(`[1-9]\.[1-9*]\*`), rapid.StringN(1, 5, 20)), 0, 4).Draw(t, "keys") {
		if !strings.HasSuffix(key, "*") || key[0] < '1' || key[0] > '9' { // not the pattern of an address
			key = "=" + strings.ReplaceAll(key, "*", "+")
		}
		keys = append(keys, key)
	}
	return keys
}

// understood returns the file that Parse reads from the output of Format: with all defaults written out, and passwords masked.
func understood(f *config.File) *config.File {
	said := *f
	said.Service.Store = errtext.Redact(cmp.Or(f.Service.Store, "memory:"))
	said.Service.StoreTimeout = cmp.Or(f.Service.StoreTimeout, 100*time.Millisecond)
	said.Service.Failure = cmp.Or(f.Service.Failure, store.FailLocal)
	groups := &said.Service.AddressGroups
	groups.V4, groups.V6 = cmp.Or(groups.V4, 32), cmp.Or(groups.V6, 64)
	if len(f.Policies) == 1 {
		said.Service.Default = f.Policies[0].Name
	}
	said.Policies = slices.Clone(f.Policies)
	for i := range said.Policies {
		p := &said.Policies[i]
		p.Failure = cmp.Or(p.Failure, said.Service.Failure)
		if p.Name == "default" && f.Service.Default == "" {
			said.Service.Default = "default"
		}
	}
	return &said
}

func TestFormatIsReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := drawFile(t)
		text := config.Format(file)
		again, err := config.Parse("f", text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		again = &config.File{Policies: again.Policies, Service: again.Service} // without positions and warnings
		if want := understood(file); !reflect.DeepEqual(again, want) {
			t.Fatalf("%s\ngot %+v\nwant %+v", text, again, want)
		}
		if twice := config.Format(again); string(twice) != string(text) {
			t.Fatalf("first\n%s\nthen\n%s", text, twice)
		}
		if strings.Contains(string(text), "hunter2") {
			t.Fatalf("got a password in\n%s", text)
		}
	})
}

func drawCost(t *rapid.T) fields.Cost {
	cost, err := fields.ParseCost(rapid.SampledFrom([]string{"1", "0", "bytes", `field:a\.b."c`, "header:X-Cost"}).Draw(t, "cost"))
	if err != nil {
		t.Fatal(err)
	}
	return cost
}

func drawRoutes(t *rapid.T) (routes []config.Route) {
	patterns := rapid.SampledFrom([]string{"/", "GET /{$}", "POST /a/", "/a/b", "h.example/a%22b/"})
	for _, pattern := range rapid.SliceOfNDistinct(patterns, 0, 3, rapid.ID).Draw(t, "match") {
		route := config.Route{Pattern: pattern}
		if rapid.Bool().Draw(t, "has a cost") {
			cost := drawCost(t)
			route.Cost = &cost
		}
		routes = append(routes, route)
	}
	return routes
}

func drawPlans(t *rapid.T) (plans []policy.Plan, by fields.Field) {
	byKey := rapid.Bool().Draw(t, "plan by key")
	names := rapid.SampledFrom([]string{"pro", "team-*", "a\"b: c", "é", "12", "true"})
	if by = (fields.Field{Kind: fields.Key}); byKey { // the names are keys as they are stored, which any key may be written as
		names = rapid.SampledFrom([]string{"=pro", "=a\"b: c", "=é", "=12", "=true"})
	}
	for _, name := range rapid.SliceOfNDistinct(names, 0, 3, rapid.ID).Draw(t, "plans") {
		plan := policy.Plan{Name: name, Unlimited: rapid.Bool().Draw(t, "unlimited plan")}
		if !plan.Unlimited {
			plan.Limits = drawLimits(t, "plan", 1)
		}
		plans = append(plans, plan)
	}
	switch {
	case len(plans) == 0:
		by = fields.Field{}
	case !byKey:
		by = rapid.SampledFrom([]fields.Field{{Kind: fields.Header, Name: "X-Plan"}, {Kind: fields.User}}).Draw(t, "plan")
	}
	return plans, by
}
