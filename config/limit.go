package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// limit reads one limit and reports whether it is valid.
func (r *reader) limit(item ast.Node) (limit slidegate.Limit, ok bool) {
	before := len(r.Problems)
	at := yamlfile.PositionOf(item)
	node := r.Resolve(item)
	if node == nil {
		return limit, false
	}
	var err error
	r.percents = nil
	if text, _, isScalar := yamlfile.Scalar(node); isScalar && strings.Contains(text, "://") {
		err = errors.New("a limit must be a string such as 100/1m, not a URL") // which may contain a password
	} else if isScalar {
		if text, r.percents, err = cutThresholds(text); err == nil {
			limit, err = slidegate.ParseLimit(text)
		}
	} else if yamlfile.IsMapping(node) {
		limit = r.limitFields(at, node)
		if len(r.Problems) == before {
			err = adapter.Check(limit)
		}
	} else {
		err = fmt.Errorf("a limit must be a string such as 100/1m, or a mapping with quota and window, not %s", yamlfile.Describe(node))
	}
	if err != nil {
		r.Problems.Add(at, limitProblem(err))
	}
	if len(r.Problems) == before {
		r.addThresholds(at, limit, r.percents)
	}
	return limit, len(r.Problems) == before
}

// limitProblem returns the error of a limit without the package name, for use in a file.
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
	given := limitTable.read(r, node, "a limit", &limit)
	if !given.has("quota") {
		r.Problems.Addf(at, "the limit has no quota; add quota: 100, say")
	}
	r.limitPeriod(at, &limit, given)
	setSlidingWindow(&limit, given)
	return limit
}

// setSlidingWindow sets the algorithm of a limit for which overlap or anchor is given as its zero value, up or clock, which the
// limit does not show. As in a text, the algorithm is then sliding-window.
func setSlidingWindow(limit *slidegate.Limit, given given) {
	if (given.has("overlap") || given.has("anchor")) && *limit == (slidegate.Limit{
		Name: limit.Name, Quota: limit.Quota, Window: limit.Window, Burst: limit.Burst, CountRefused: limit.CountRefused, Lease: limit.Lease, Hold: limit.Hold,
	}) {
		limit.Algorithm = slidegate.SlidingWindow
	}
}

// limitPeriod reads the window, calendar or ttl of a limit, and checks that there is exactly one.
func (r *reader) limitPeriod(at yamlfile.Position, limit *slidegate.Limit, given given) {
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
		r.Problems.Addf(window.At, "window: cannot be combined with calendar; leave out one of them")
	case !hasCalendar && !hasWindow && !hasTTL:
		r.Problems.Addf(at, "the limit has no window; add window: 1m, say")
	case hasZone && hasWindow && limit.Calendar == 0:
		r.zonedWindow(limit, window, zone)
	case hasZone && !hasCalendar && limit.Calendar == 0:
		r.Problems.Addf(zone.At, "zone: applies to calendar days, weeks, months and years only; add calendar: month, say, or leave it out")
	}
}

// zonedWindow turns a window such as day into a calendar day, as a text with a zone does.
func (r *reader) zonedWindow(limit *slidegate.Limit, window, zone yamlfile.Field) {
	text, _ := r.Text(window)
	made, err := slidegate.ParseLimit("1/" + text + " zone=UTC")
	if err != nil || made.Calendar == 0 {
		r.Problems.Addf(zone.At, "zone: a window of %s is a duration, the same in every zone; "+
			"write calendar: day, week, month or year instead, or leave the zone out", errtext.Quote(text))
		return
	}
	limit.Window, limit.Calendar = made.Window, made.Calendar
}

// limitName reads a name, which must be a string: a number or a boolean might not be used as it is written.
func (r *reader) limitName(e yamlfile.Field) string {
	text, ok := r.Text(e)
	_, isString := e.Value.(*ast.StringNode)
	_, isLiteral := e.Value.(*ast.LiteralNode)
	if ok && !isString && !isLiteral {
		r.Problems.Addf(e.ValueAt(), "name: %s is not a string; write it in quotes", text)
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
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, errtext.Unknown(text, what, names))
	}
	return among[0]
}

// window reads a duration, or a calendar period, as slidegate.ParseLimit does: as part of a limit that is otherwise valid.
func (r *reader) window(e yamlfile.Field) (limit slidegate.Limit) {
	text, ok := r.duration(e, "30s, 1m, 24h or 7d")
	if !ok {
		return limit
	}
	form := "1/%s"
	switch e.Name {
	case "ttl":
		form = "1 in-flight ttl=%s"
	case "hold":
		form = "1/1h hold=%s"
	}
	limit, err := slidegate.ParseLimit(fmt.Sprintf(form, text))
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the synthetic limit
		}
		if e.Name == "penalty" {
			err = fmt.Errorf("penalty: %s is not a duration of 1ms to 5 years, such as 10m or 24h", errtext.Quote(text))
		}
		r.Problems.Add(e.ValueAt(), err)
	}
	return limit
}

// duration returns the text of a duration, and reports what is obviously none; examples are durations, for errors.
func (r *reader) duration(e yamlfile.Field, examples string) (text string, ok bool) {
	text, ok = r.Text(e)
	_, bare := fields.ParseWhole(text)
	switch {
	case !ok:
		return "", false
	case bare:
		r.Problems.Addf(e.ValueAt(), "%s: %s has no unit; write a duration such as %s", e.Name, errtext.Quote(text), examples)
	case strings.ContainsFunc(text, unicode.IsSpace):
		r.Problems.Addf(e.ValueAt(), "%s: %s contains a space; write a duration such as %s", e.Name, errtext.Quote(text), examples)
	case strings.Contains(text, "://"): // it may contain a password
		r.Problems.Addf(e.ValueAt(), "%s: must be a duration such as %s, not a URL", e.Name, examples)
	default:
		return text, true
	}
	return "", false
}
