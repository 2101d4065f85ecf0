package envoy

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/rule"
)

var rateLimitFields = []string{
	"unit", "requests_per_unit", "unlimited", "name", "replaces",
	"unit_multiplier", "window", "algorithm", "segments", "overlap", "anchor", "count_refused", "lease", "burst", "zone",
}

// algorithms lists the algorithms that a rule can have. In-flight is not among them: Envoy does not report when a
// request has ended.
var algorithms = slices.DeleteFunc(slices.Clone(rule.Algorithms), func(a rule.Algorithm) bool { return a == rule.InFlight })

var (
	algorithmNames = namesOf(algorithms...)
	overlapNames   = namesOf(rule.OverlapUp, slidegate.OverlapDown, slidegate.OverlapWhole)
	anchorNames    = namesOf(rule.AnchorClock, slidegate.AnchorFirst)
)

func namesOf[T interface{ String() string }](values ...T) (names []string) {
	for _, v := range values {
		names = append(names, v.String())
	}
	return names
}

// rateLimit reads a rate_limit block.
func (r *reader) rateLimit(block yamlfile.Field) *spec {
	s := &spec{}
	s.limit.Algorithm, s.multiplier = slidegate.FixedWindow, 1
	if !yamlfile.IsMapping(block.Value) {
		r.Problems.Addf(block.ValueAt(), "rate_limit: must be a mapping with unit and requests_per_unit, not %s", yamlfile.Describe(block.Value))
		return s
	}
	before := len(r.Problems)
	given := map[string]yamlfile.Field{}
	for _, f := range r.mapping(block.Value, "a rate_limit", rateLimitFields) {
		given[f.Name] = f
		r.limitField(s, f)
	}
	if len(r.Problems) > before {
		return s
	}
	r.period(s, block, given)
	_, counted := given["count_refused"]
	if _, chosen := given["algorithm"]; !counted && !chosen && !s.limit.Lease {
		s.limit.CountRefused = r.charging == ChargeEach // as the original does
	}
	if s.name != "" && slices.Contains(s.replaces, s.name) {
		r.Problems.Addf(given["replaces"].At, "replaces: %s is this rate_limit's own name", errtext.Quote(s.name))
	}
	if f, ok := given["requests_per_unit"]; !s.unlimited && (!ok || f.Value == nil) { // the original silently refuses everything
		r.Problems.Addf(block.At, "the rate_limit has no requests_per_unit; write 0 to refuse all, or unlimited: true")
	}
	if s.unlimited || len(r.Problems) > before {
		return s
	}
	if err := adapter.Check(s.storeLimit()); err != nil {
		r.Problems.Add(block.At, err)
	}
	return s
}

func (r *reader) limitField(s *spec, f yamlfile.Field) {
	switch f.Name {
	case "unit":
		r.unit(s, f)
	case "requests_per_unit":
		if f.Value != nil { // see rateLimit
			s.limit.Quota = r.integer(f, 0, maxUint32)
		}
	case "unlimited":
		s.unlimited = r.boolean(f)
	case "name":
		s.name, _ = r.Text(f)
	case "replaces":
		s.replaces = r.replaces(f)
	case "unit_multiplier":
		s.multiplier = uint32(r.integer(f, 1, maxUint32))
	case "window":
		s.limit.Window = r.window(f)
	case "algorithm":
		s.limit.Algorithm = r.algorithm(f)
	case "segments":
		s.limit.Segments = int(r.integer(f, 1, rule.MaxSegments))
	case "overlap":
		s.limit.Overlap = rule.Overlap(r.word(f, "an overlap", overlapNames))
	case "anchor":
		s.limit.Anchor = rule.Anchor(r.word(f, "an anchor", anchorNames))
	case "count_refused":
		s.limit.CountRefused = r.boolean(f)
	case "lease":
		s.limit.Lease = r.boolean(f)
	case "burst":
		s.limit.Burst = r.integer(f, 1, rule.MaxQuota)
	case "zone":
		if !r.hasValue(f) {
			return
		}
		var ok bool
		if s.limit.Zone, ok = r.Text(f); ok && s.limit.Zone == "" {
			r.Problems.Addf(f.ValueAt(), "zone: is empty; write a time zone such as Europe/Berlin, or leave it out")
		}
	}
}

// algorithm reads the algorithm of a limit.
func (r *reader) algorithm(f yamlfile.Field) rule.Algorithm {
	if text, _, _ := yamlfile.Scalar(f.Value); text == slidegate.InFlight.String() {
		r.Problems.Addf(f.ValueAt(), "algorithm: in-flight is not supported for Envoy, which does not report when a request has ended, so its slot would not be released; "+
			"use slidegate proxy, or /v1/acquire and /v1/release")
		return slidegate.FixedWindow
	}
	return algorithms[r.word(f, "an algorithm", algorithmNames)]
}

// unit reads the unit, in any case, as the original does.
func (r *reader) unit(s *spec, f yamlfile.Field) {
	if !r.hasValue(f) {
		return
	}
	text, ok := r.Text(f)
	i := slices.Index(unitNames, strings.ToLower(text))
	switch {
	case i >= 0:
		s.unit = units[i].unit
	case ok:
		r.Problems.Addf(f.ValueAt(), "unit: %w", errtext.Unknown(text, "a unit", unitNames))
	}
}

// period derives the window from unit and unit_multiplier, or the other way round.
func (r *reader) period(s *spec, block yamlfile.Field, given map[string]yamlfile.Field) {
	unit, hasUnit := given["unit"]
	window, hasWindow := given["window"]
	multiplier, hasMultiplier := given["unit_multiplier"]
	switch {
	case s.unlimited && hasUnit:
		r.Problems.Addf(unit.At, "unit: has no effect when unlimited; leave out one of them")
	case s.unlimited:
	case hasUnit && hasWindow:
		r.Problems.Addf(window.At, "window: cannot be combined with unit; leave out one of them")
	case hasMultiplier && !hasUnit:
		r.Problems.Addf(multiplier.At, "unit_multiplier: needs a unit to multiply")
	case hasWindow && s.limit.Zone != "":
		r.Problems.Addf(given["zone"].At, "zone: a window has the same length in every zone; write unit: day, week, month or year instead, or leave out the zone")
	case hasWindow:
		s.unit, s.multiplier = unitOf(s.limit.Window)
	case hasUnit && s.limit.Zone != "":
		r.calendar(s, given)
	case hasUnit:
		s.limit.Window = times(lengthOf(s.unit), int64(s.multiplier))
	default:
		r.Problems.Addf(block.At, "the rate_limit has no unit; write one of %s", strings.Join(unitNames, ", "))
	}
}

// calendar makes a unit follow the calendar, which is an addition of ours: the original's months have 30 days, and its
// years 365.
func (r *reader) calendar(s *spec, given map[string]yamlfile.Field) {
	s.limit.Calendar = unitWith(func(u timeUnit) bool { return u.unit == s.unit }).period
	switch multiplier, many := given["unit_multiplier"]; {
	case s.limit.Calendar == 0:
		r.Problems.Addf(given["zone"].At, "zone: is only for the units day, week, month and year, which then follow the calendar; leave it out")
	case many && s.multiplier != 1:
		r.Problems.Addf(multiplier.At, "unit_multiplier: a unit of the calendar cannot be multiplied; leave it out, or the zone")
	}
}

// window reads a duration of whole seconds: responses express windows in units, and no unit is shorter.
func (r *reader) window(f yamlfile.Field) time.Duration {
	if !r.hasValue(f) {
		return 0
	}
	text, ok := r.Text(f)
	if !ok {
		return 0
	}
	limit, err := slidegate.ParseLimit("1/" + text)
	if err != nil || limit != (slidegate.Limit{Quota: 1, Window: limit.Window}) || strings.ContainsFunc(text, unicode.IsSpace) {
		r.Problems.Addf(f.ValueAt(), "window: %s is not a length of time such as 30s, 10m, 24h or 7d", errtext.Quote(text))
		return 0
	}
	if limit.Window%time.Second != 0 || limit.Window/time.Second > math.MaxUint32 {
		r.Problems.Addf(f.ValueAt(), "window: %s: must be a whole number of seconds", errtext.Quote(text))
		return 0
	}
	return limit.Window
}

func (r *reader) replaces(f yamlfile.Field) (names []string) {
	for _, item := range r.items(f) {
		at, before := yamlfile.PositionOf(item), len(r.Problems)
		name := ""
		for _, f := range r.mapping(item, "replaces", []string{"name"}) {
			name, _ = r.Text(f)
		}
		if name == "" && len(r.Problems) == before {
			r.Problems.Addf(at, "replaces: has no name; write name: and the name of another rate_limit")
		}
		names = append(names, name)
	}
	return names
}
