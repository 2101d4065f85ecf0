package traffic

import (
	"fmt"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
	"github.com/slidegate/slidegate/config/errtext"
)

// Format is how a log writes its lines. The zero value finds out from the first of them.
type Format uint8

// The formats. In those that are JSON, of members of the same name in one object the last counts.
const (
	FormatAuto       Format = iota
	FormatCommon            // the Common Log Format of Apache and others
	FormatCombined          // the same with referer and user agent: Apache, nginx, Traefik's text
	FormatCaddy             // Caddy 2, JSON
	FormatTraefik           // Traefik, JSON
	FormatEnvoy             // Envoy and Istio, JSON
	FormatHAProxy           // HAProxy, option httplog
	FormatALB               // AWS Application and Classic Load Balancers
	FormatCloudFront        // Amazon CloudFront, standard logs
	FormatLines             // our own: {"t": 1767643391854, "key": "alice", "cost": 3}
	FormatJSON              // any other JSON; Options.Fields says where things are
)

// layout describes a format.
type layout struct {
	name  string
	title string
	table *jsonTable // nil if it is not JSON
	text  textLayout // if it is not JSON
}

// textLayout describes a format that is not JSON.
type textLayout struct {
	fields  fieldSet
	headers []string // in canonical form
	parser  func(wants) parser
}

var layouts = [...]layout{
	FormatAuto:       {"auto", "log", nil, textLayout{}},
	FormatCommon:     {"common", "common log", nil, textLayout{clfFields, nil, newCommonParser}},
	FormatCombined:   {"combined", "combined log", nil, textLayout{clfFields, clfHeaders, newCombinedParser}},
	FormatCaddy:      {"caddy", "Caddy log", &caddyTable, textLayout{}},
	FormatTraefik:    {"traefik", "Traefik log", &traefikTable, textLayout{}},
	FormatEnvoy:      {"envoy", "Envoy log", &envoyTable, textLayout{}},
	FormatHAProxy:    {"haproxy", "HAProxy log", nil, textLayout{haproxyFields, nil, newHAProxyParser}},
	FormatALB:        {"alb", "AWS load balancer log", nil, textLayout{albFields, albHeaders, newALBParser}},
	FormatCloudFront: {"cloudfront", "CloudFront log", nil, textLayout{cloudfrontFields, cloudfrontHeaders, newCloudFrontParser}},
	FormatLines:      {"lines", "JSON lines", &linesTable, textLayout{}},
	FormatJSON:       {"json", "JSON log", &jsonLogTable, textLayout{}},
}

// FormatNames returns the names that ParseFormat takes, without "auto".
func FormatNames() []string {
	var names []string
	for _, layout := range layouts[FormatAuto+1:] {
		names = append(names, layout.name)
	}
	return names
}

// ParseFormat returns the format of that name; "" and "auto" are FormatAuto.
func ParseFormat(name string) (Format, error) {
	if name == "" {
		return FormatAuto, nil
	}
	for f, layout := range layouts {
		if layout.name == name {
			return Format(f), nil
		}
	}
	hint := ""
	if near, ok := errtext.Nearest(name, FormatNames()); ok {
		hint = fmt.Sprintf(": did you mean %s?", near)
	}
	return FormatAuto, invalid("Format", "%q is not a format%s (there are %s, and auto)", name, hint,
		strings.Join(FormatNames(), ", "))
}

// String returns the name that ParseFormat takes.
func (f Format) String() string {
	if int(f) < len(layouts) {
		return layouts[f].name
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// MarshalText returns String.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what ParseFormat reads.
func (f *Format) UnmarshalText(text []byte) error {
	parsed, err := ParseFormat(string(text))
	if err == nil {
		*f = parsed
	}
	return err
}

// shape is a format with the names that the user gave to its fields.
type shape struct {
	format Format
	table  *jsonTable // nil if it is not JSON
}

// shapeOf applies the names that were given, which only JSON has.
func shapeOf(format Format, given map[string]string) (shape, error) {
	s := shape{format: format, table: layouts[format].table}
	if s.table == nil {
		if len(given) > 0 {
			return s, invalid("Fields", "only a JSON log has names for its fields, and the format %s is not JSON", s.format)
		}
		return s, nil
	}
	s.table = s.table.with(given)
	if len(s.table.time) == 0 {
		return s, invalid("Fields", "the format %s must be told where the time is, such as time=timestamp", s.format)
	}
	return s, nil
}

func (s shape) title() string { return layouts[s.format].title }

// fields returns what the format can have.
func (s shape) fields() fieldSet {
	if s.table == nil {
		return layouts[s.format].text.fields
	}
	return s.table.has()
}

// known returns what the format tells of requests to patterns and lists.
func (s shape) known() facing.Known {
	has := s.fields()
	return facing.Known{Method: has.has(fieldMethod), Host: has.has(fieldHost), Path: has.has(fieldPath), Address: has.has(fieldAddress)}
}

// lacks returns the error for a field that the format does not have, and that an option needs: the key, the cost or a filter.
func (s shape) lacks(option, name string) error {
	has := "nothing of that kind"
	if names := s.offers(option); len(names) > 0 {
		has = listed(names)
	}
	if s.table != nil && !strings.Contains(name, ":") {
		has += fmt.Sprintf(" (fields can say where the %s is: %s=PATH)", name, name)
	}
	return invalid(option, "the format %s has no %s; it has %s", s.format, name, has)
}

// offers lists what keys can be made of, costs taken from, or filters held against.
func (s shape) offers(option string) []string {
	switch option {
	case "Cost":
		return append((s.fields() & setOf(fieldBytes)).names(), s.offersMembers()...)
	case filterMethod, filterPath, filterStatus:
		return (s.fields() & setOf(fieldMethod, fieldPath, fieldStatus)).names()
	}
	names := (s.fields() &^ setOf(fieldBytes, fieldCost)).names()
	for _, name := range layouts[s.format].text.headers {
		names = append(names, "header:"+name)
	}
	if s.table != nil && s.table.headers != nil {
		names = append(names, "header:NAME")
	}
	return append(names, s.offersMembers()...)
}

func (s shape) offersMembers() []string {
	if s.table == nil {
		return nil
	}
	return []string{"field:PATH"}
}

// newParser makes a parser for what was found to be wanted.
func (s shape) newParser(p *plan) (parser, error) {
	if s.table == nil {
		return layouts[s.format].text.parser(p.wants), nil
	}
	general, err := newJSONParser(s.table, p.wants)
	if err != nil || s.format != FormatLines {
		return general, err
	}
	own := linesTable.with(nil)
	return &linesParser{
		jsonParser: general,
		needKey:    p.wants.fields.has(fieldKey),
		ownCost:    p.wants.fields.has(fieldCost),
		plain: len(p.wants.extras) == 0 && p.wants.fields&^setOf(fieldKey, fieldCost) == 0 &&
			own.time[0] == s.table.time[0] && own.names[fieldKey][0] == s.table.names[fieldKey][0] &&
			own.names[fieldCost][0] == s.table.names[fieldCost][0],
	}, nil
}
