package traffic

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/internal/errtext"
)

// Auto is the format that is detected from the first lines.
const Auto = "auto"

// layout is a format: columns, or the paths of the members of a JSON object.
type layout struct {
	name      string
	title     string
	columns   string
	table     *jsonTable // nil if it is not JSON
	hasFields bool       // the log describes its columns itself
}

// The formats that others extend.
const commonColumns = `{address} {-} {user} [{time}] "{request}" {status}{?} {bytes}`

// layouts are the formats, in the order in which they are tried: of two that match the same number of lines, the first
// is used. Every combined log is also a common log, and any JSON log can be described by fields.
var layouts = []layout{
	{name: "lines", title: "JSON lines", table: &linesTable},
	{name: "caddy", title: "Caddy log", table: &caddyTable},
	{name: "traefik", title: "Traefik log", table: &traefikTable},
	{name: "envoy", title: "Envoy log", table: &envoyTable},
	{name: "json", title: "JSON log", table: &jsonTable{}},
	// AWS Application Load Balancers, and Classic ones, which lack the type at the beginning and most columns after the
	// user agent. The first time is that of the response, the other one that of the request.
	{name: "alb", title: "AWS load balancer log", columns: `{...}{time} {-} {address:port} {-} {-} {-} {-} {status} {-} {-} {bytes} ` +
		`"{request:url}" "{header:User-Agent}"{?} {-} {-} {-} "{-}" "{-}" "{-}" {-} {time}`},
	{name: "cloudfront", title: "CloudFront log", hasFields: true, columns: describeFields([]string{
		"date", "time", "x-edge-location", "sc-bytes", "c-ip", "cs-method", "cs(host)", "cs-uri-stem", "sc-status", "cs(referer)",
		"cs(user-agent)", "cs-uri-query", "cs(cookie)", "x-edge-result-type", "x-edge-request-id", "x-host-header", "cs-protocol",
		"cs-bytes", "time-taken", "x-forwarded-for",
	})},
	// HAProxy with option httplog. Captured headers, in braces before the request, have no names.
	{name: "haproxy", title: "HAProxy log", columns: `{...}{address:port} [{time}] {-} {-}/{-} {-}/{-}/{-}/{-}/{-} {status} {bytes} {-}"{request#}"`},
	{name: "combined", title: "combined log", columns: commonColumns + ` "{header:Referer}" "{header:User-Agent}"`},
	{name: "common", title: "common log", columns: commonColumns},
}

// FormatNames returns the names of the formats that are built in, without Auto.
func FormatNames() []string {
	var names []string
	for i := range layouts {
		names = append(names, layouts[i].name)
	}
	return names
}

// findLayout returns the layout with a name, or with the columns that text describes.
func findLayout(text string) (*layout, error) {
	if strings.Contains(text, "{") {
		return &layout{name: "described", title: "log of described columns", columns: text}, nil
	}
	if i := slices.Index(FormatNames(), text); i >= 0 {
		return &layouts[i], nil
	}
	hint := ""
	if near, ok := errtext.Nearest(text, FormatNames()); ok {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return nil, invalid("Format", "unknown format %q%s (want %s, %s, or a description such as '{address} [{time}] \"{request}\"')",
		text, hint, strings.Join(FormatNames(), ", "), Auto)
}

// shape is a format with the field paths given by the user.
type shape struct {
	*layout
	columns *columns   // nil if it is JSON
	table   *jsonTable // nil if it is not JSON
}

// shapeOf returns a format with the given field paths, which only JSON formats support.
func shapeOf(of *layout, given map[string]string) (s shape, err error) {
	s = shape{layout: of}
	if of.table == nil {
		if len(given) > 0 {
			return s, invalid("Fields", "only JSON logs have field names, and the format %s is not JSON", s.name)
		}
		if s.columns, err = parseColumns(of.columns); err != nil {
			return s, invalid("Format", "%w", err)
		}
		return s, nil
	}
	s.table = of.table.with(given)
	if len(s.table.time) == 0 {
		return s, invalid("Fields", "the format %s needs the path of the time, such as time=timestamp", s.name)
	}
	return s, nil
}

// fields returns the fields that the format may have.
func (s shape) fields() fieldSet {
	if s.table == nil {
		return s.columns.has()
	}
	return s.table.has()
}

func (s shape) hasHeader(name string) bool {
	if s.table != nil {
		return s.table.headers != nil
	}
	return slices.Contains(s.columns.headers(), textproto.CanonicalMIMEHeaderKey(name))
}

// known returns what the format records that patterns and lists need.
func (s shape) known() routing.Known {
	has := s.fields()
	return routing.Known{Method: has.has(fieldMethod), Host: has.has(fieldHost), Path: has.has(fieldPath), Address: has.has(fieldAddress)}
}

// missingField returns the error for a field that an option (the key, the cost or a filter) needs and the format does not have.
func (s shape) missingField(option, name string) error {
	has := "no such fields"
	if names := s.available(option); len(names) > 0 {
		has = joinNames(names)
	}
	if s.table != nil && !strings.Contains(name, ":") {
		has += fmt.Sprintf(" (or give the path of the %s with fields: %s=PATH)", name, name)
	}
	return invalid(option, "the format %s has no %s; it has %s", s.name, name, has)
}

// available lists the fields that the format has for an option.
func (s shape) available(option string) []string {
	var members []string
	if s.table != nil {
		members = []string{"field:PATH"}
	}
	switch option {
	case "Cost":
		return append((s.fields() & setOf(fieldBytes)).names(), members...)
	case filterMethod, filterPath, filterStatus:
		return (s.fields() & setOf(fieldMethod, fieldPath, fieldStatus)).names()
	}
	names := (s.fields() &^ setOf(fieldBytes, fieldCost)).names()
	if s.table == nil {
		for _, name := range s.columns.headers() {
			names = append(names, "header:"+name)
		}
	} else if s.table.headers != nil {
		names = append(names, "header:NAME")
	}
	return append(names, members...)
}

// newParser returns a parser for what the plan wants.
func (s shape) newParser(p *plan) (parser, error) {
	if s.table == nil {
		return newTextParser(s.columns, p.wants, s.hasFields), nil
	}
	return newJSONParser(s.table, p.wants)
}
