package config

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config/wording"
	"github.com/slidegate/slidegate/config/yamlfile"
)

var limitFields = []string{
	"name", "quota", "window", "algorithm", "segments", "overlap", "anchor", "count_denied", "burst",
}

// limit reads one limit and tells whether it is right.
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
	var wrong *slidegate.LimitError
	if errors.As(err, &wrong) {
		if err = wrong.Err; wrong.Text != "" {
			err = fmt.Errorf("%w (in %q)", err, wrong.Text)
		}
	}
	if err != nil {
		r.Problems.Add(at, err)
	}
	return limit, len(r.Problems) == before
}

// limitFields reads a limit that is written field by field.
func (r *reader) limitFields(at yamlfile.Position, node ast.Node) (limit slidegate.Limit) {
	given := map[string]bool{}
	for _, e := range r.mapping(node, "a limit", limitFields) {
		given[e.Name] = true
		if e.Value != nil {
			r.limitField(&limit, e)
		}
	}
	for _, field := range []struct{ name, example string }{{"quota", "100"}, {"window", "1m"}} {
		if !given[field.name] {
			r.Problems.Addf(at, "the limit has no %s; add %s: %s, say", field.name, field.name, field.example)
		}
	}
	return limit
}

func (r *reader) limitField(limit *slidegate.Limit, e yamlfile.Field) {
	switch e.Name {
	case "name":
		limit.Name = r.limitName(e)
	case "quota":
		limit.Quota = r.whole(e)
	case "window":
		limit.Window = r.window(e)
	case "algorithm":
		limit.Algorithm = choice(r, e, "an algorithm",
			slidegate.SlidingWindow, slidegate.SlidingLog, slidegate.FixedWindow, slidegate.TokenBucket)
	case "segments":
		limit.Segments = int(min(max(r.whole(e), -1), 1<<30)) // fits an int everywhere; Check refuses both ends
	case "overlap":
		limit.Overlap = choice(r, e, "an overlap", slidegate.OverlapUp, slidegate.OverlapDown, slidegate.OverlapWhole)
	case "anchor":
		limit.Anchor = choice(r, e, "an anchor", slidegate.AnchorClock, slidegate.AnchorFirst)
	case "count_denied":
		limit.CountDenied = r.Truth(e)
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

// window reads a length of time as slidegate.ParseLimit does, through a limit that has nothing else to be wrong.
func (r *reader) window(e yamlfile.Field) time.Duration {
	text, ok := r.Text(e)
	if !ok {
		return 0
	}
	if _, bare := parseWhole(text); bare {
		r.Problems.Addf(e.ValueAt(),
			"window: %s has no unit; write a length of time such as 30s, 1m, 24h or 7d", wording.Quote(text))
		return 0
	}
	if strings.ContainsFunc(text, unicode.IsSpace) {
		r.Problems.Addf(e.ValueAt(),
			"window: %s has a space in it; write a length of time such as 30s, 1m, 24h or 7d", wording.Quote(text))
		return 0
	}
	if strings.Contains(text, "://") { // it may have a password in it
		r.Problems.Addf(e.ValueAt(), "window: must be a length of time such as 30s, 1m, 24h or 7d, not a URL")
		return 0
	}
	limit, err := slidegate.ParseLimit("1/" + text)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the limit that we made up
		}
		r.Problems.Add(e.ValueAt(), err)
	}
	return limit.Window
}
