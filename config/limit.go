package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config/wording"
	"github.com/slidegate/slidegate/config/yamlfile"
)

var limitFields = []string{
	"name", "quota", "window", "algorithm", "segments", "overlap", "anchor", "count_denied", "lease", "burst", "ttl", "calendar", "zone",
}

// limit reads one limit and reports whether it is right.
func (r *reader) limit(item ast.Node) (limit slidegate.Limit, ok bool) {
	before := len(r.Problems)
	at := yamlfile.PositionOf(item)
	node := r.Resolve(item)
	if node == nil {
		return limit, false
	}
	var err error
	if text, _, isScalar := yamlfile.Scalar(node); isScalar && strings.Contains(text, "://") {
		err = errors.New("a limit must be a text such as 100/1m, not a URL") // which may have a password in it
	} else if isScalar {
		limit, err = slidegate.ParseLimit(text)
	} else if yamlfile.IsMapping(node) {
		limit = r.limitFields(at, node)
		if len(r.Problems) == before {
			err = limit.Check()
		}
	} else {
		err = fmt.Errorf("a limit must be a text such as 100/1m, or a mapping with quota and window, not %s", yamlfile.NameOf(node))
	}
	if err != nil {
		r.Problems.Add(at, limitProblem(err))
	}
	return limit, len(r.Problems) == before
}

// limitProblem words the error of a limit for a file, where the package's name would be one too many.
func limitProblem(err error) error {
	var wrong *slidegate.LimitError
	if !errors.As(err, &wrong) {
		return err
	}
	if wrong.Text != "" {
		return fmt.Errorf("%w (in %q)", wrong.Err, wrong.Text)
	}
	return wrong.Err
}

// limitFields reads a limit that is written field by field.
func (r *reader) limitFields(at yamlfile.Position, node ast.Node) (limit slidegate.Limit) {
	given := map[string]yamlfile.Field{}
	for _, e := range r.mapping(node, "a limit", limitFields) {
		given[e.Name] = e
		if e.Value != nil {
			r.limitField(&limit, e)
		}
	}
	if _, ok := given["quota"]; !ok {
		r.Problems.Addf(at, "the limit has no quota; add quota: 100, say")
	}
	r.limitPeriod(at, &limit, given)
	nameSliding(&limit, given)
	return limit
}

// nameSliding names the algorithm of a limit of which overlap or anchor is given and the limit does not show it, because up and
// clock are their zero values. As in a text, it is a sliding window then.
func nameSliding(limit *slidegate.Limit, given map[string]yamlfile.Field) {
	_, overlap := given["overlap"]
	_, anchor := given["anchor"]
	if (overlap || anchor) && *limit == (slidegate.Limit{
		Name: limit.Name, Quota: limit.Quota, Window: limit.Window, Burst: limit.Burst, CountDenied: limit.CountDenied, Lease: limit.Lease,
	}) {
		limit.Algorithm = slidegate.SlidingWindow
	}
}

// limitPeriod reads what a limit has in place of a window, and checks that there is one of the three.
func (r *reader) limitPeriod(at yamlfile.Position, limit *slidegate.Limit, given map[string]yamlfile.Field) {
	window, hasWindow := given["window"]
	ttl, hasTTL := given["ttl"]
	calendar, hasCalendar := given["calendar"]
	zone, hasZone := given["zone"]
	inFlight := limit.Algorithm == slidegate.InFlight
	switch {
	case hasTTL && !inFlight:
		r.Problems.Addf(ttl.At, "ttl: applies to in-flight only; add algorithm: in-flight, or write window: instead")
	case inFlight && hasWindow:
		r.Problems.Addf(window.At, "window: an in-flight limit has none; write ttl: and how long a slot is held unless it is renewed")
	case inFlight && hasCalendar:
		r.Problems.Addf(calendar.At, "calendar: an in-flight limit has none; write ttl: and how long a slot is held unless it is renewed")
	case inFlight && !hasTTL:
		r.Problems.Addf(at, "the limit has no ttl; add ttl: 30s, say: how long a slot is held unless it is renewed")
	case hasCalendar && hasWindow:
		r.Problems.Addf(window.At, "window: stands in place of calendar; leave out one of them")
	case !hasCalendar && !hasWindow && !hasTTL:
		r.Problems.Addf(at, "the limit has no window; add window: 1m, say")
	case hasZone && hasWindow && limit.Calendar == 0:
		r.zonedWindow(limit, window, zone)
	case hasZone && !hasCalendar && limit.Calendar == 0:
		r.Problems.Addf(zone.At, "zone: applies to days, weeks, months and years of the calendar only; add calendar: month, say, or leave it out")
	}
}

// zonedWindow makes a window such as day a day of the calendar, as a text with a zone does.
func (r *reader) zonedWindow(limit *slidegate.Limit, window, zone yamlfile.Field) {
	text, _ := r.Text(window)
	made, err := slidegate.ParseLimit("1/" + text + " zone=UTC")
	if err != nil || made.Calendar == 0 {
		r.Problems.Addf(zone.At, "zone: a window of %s is a length of time, the same in every zone; "+
			"write calendar: day, week, month or year in its place, or leave the zone out", wording.Quote(text))
		return
	}
	limit.Window, limit.Calendar = made.Window, made.Calendar
}

func (r *reader) limitField(limit *slidegate.Limit, e yamlfile.Field) {
	switch e.Name {
	case "name":
		limit.Name = r.limitName(e)
	case "quota":
		limit.Quota = r.whole(e)
	case "window":
		made := r.window(e)
		limit.Window, limit.Calendar = made.Window, made.Calendar
	case "ttl":
		limit.Window = r.window(e).Window
	case "calendar":
		limit.Calendar = choice(r, e, "a period of the calendar",
			slidegate.CalendarDay, slidegate.CalendarWeek, slidegate.CalendarMonth, slidegate.CalendarYear)
	case "zone":
		var ok bool
		if limit.Zone, ok = r.Text(e); ok && limit.Zone == "" {
			r.Problems.Addf(e.ValueAt(), "zone: is empty; write a time zone such as Europe/Berlin, or leave it out for UTC")
		}
	case "algorithm":
		limit.Algorithm = choice(r, e, "an algorithm",
			slidegate.SlidingWindow, slidegate.SlidingLog, slidegate.FixedWindow, slidegate.TokenBucket, slidegate.InFlight)
	case "segments":
		limit.Segments = int(min(max(r.whole(e), -1), 1<<30)) // fits an int everywhere; Check refuses both ends
	case "overlap":
		limit.Overlap = choice(r, e, "an overlap", slidegate.OverlapUp, slidegate.OverlapDown, slidegate.OverlapWhole)
	case "anchor":
		limit.Anchor = choice(r, e, "an anchor", slidegate.AnchorClock, slidegate.AnchorFirst)
	case "count_denied":
		limit.CountDenied = r.Truth(e)
	case "lease":
		if limit.Lease = r.Truth(e); !limit.Lease {
			r.unleased = append(r.unleased, e.At)
		}
	case "burst":
		limit.Burst = r.whole(e)
	}
}

// limitName reads a name, which must be a text: a number or a truth value may not be written the way it was meant.
func (r *reader) limitName(e yamlfile.Field) string {
	text, ok := r.Text(e)
	_, isString := e.Value.(*ast.StringNode)
	_, isLiteral := e.Value.(*ast.LiteralNode)
	if ok && !isString && !isLiteral {
		r.Problems.Addf(e.ValueAt(), "name: %s is not a text; write it in quotes", text)
	}
	return text
}

// choice reads one of several named values.
func choice[T fmt.Stringer](r *reader, e yamlfile.Field, what string, among ...T) T {
	text, ok := r.Text(e)
	names := make([]string, len(among))
	for i, value := range among {
		if names[i] = value.String(); names[i] == text {
			return value
		}
	}
	if ok {
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, wording.Unknown(text, what, names))
	}
	return among[0]
}

// window reads a length of time, or a period of the calendar, as slidegate.ParseLimit does: through a limit that has nothing
// else to be wrong.
func (r *reader) window(e yamlfile.Field) (limit slidegate.Limit) {
	text, ok := r.Text(e)
	if !ok {
		return limit
	}
	_, bare := parseWhole(text)
	switch {
	case bare:
		r.Problems.Addf(e.ValueAt(),
			"%s: %s has no unit; write a length of time such as 30s, 1m, 24h or 7d", e.Name, wording.Quote(text))
		return limit
	case strings.ContainsFunc(text, unicode.IsSpace):
		r.Problems.Addf(e.ValueAt(),
			"%s: %s has a space in it; write a length of time such as 30s, 1m, 24h or 7d", e.Name, wording.Quote(text))
		return limit
	case strings.Contains(text, "://"): // it may have a password in it
		r.Problems.Addf(e.ValueAt(), "%s: must be a length of time such as 30s, 1m, 24h or 7d, not a URL", e.Name)
		return limit
	}
	form := "1/%s"
	if e.Name == "ttl" {
		form = "1 in-flight ttl=%s"
	}
	limit, err := slidegate.ParseLimit(fmt.Sprintf(form, text))
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the limit that we made up
		}
		if e.Name == "penalty" {
			err = fmt.Errorf("penalty: %s is not a length of time of 1ms to 5 years, such as 10m or 24h", wording.Quote(text))
		}
		r.Problems.Add(e.ValueAt(), err)
	}
	return limit
}
