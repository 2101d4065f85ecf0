package traffic

import (
	"fmt"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/config/errtext"
)

// Format is the format of a log. The zero value detects it from the first lines.
type Format uint8

// The formats. In JSON, the last of duplicate members counts.
const (
	FormatAuto       Format = iota
	FormatCommon            // the Common Log Format of Apache and others
	FormatCombined          // common with referer and user agent: Apache, nginx, Traefik's text
	FormatCaddy             // Caddy 2, JSON
	FormatTraefik           // Traefik, JSON
	FormatEnvoy             // Envoy and Istio, JSON
	FormatHAProxy           // HAProxy, option httplog
	FormatALB               // AWS Application and Classic Load Balancers
	FormatCloudFront        // Amazon CloudFront, standard logs
	FormatLines             // Slidegate's format: {"t": 1767643391854, "key": "alice", "cost": 3}
	FormatJSON              // any other JSON; Options.Fields has the paths
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

// FormatNames returns the names that ParseFormat accepts, without "auto".
func FormatNames() []string {
	var names []string
	for _, layout := range layouts[FormatAuto+1:] {
		names = append(names, layout.name)
	}
	return names
}

// ParseFormat returns the format with the given name; "" and "auto" are FormatAuto.
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
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return FormatAuto, invalid("Format", "unknown format %q%s (want %s or auto)", name, hint,
		strings.Join(FormatNames(), ", "))
}

// String returns the name that ParseFormat accepts.
func (f Format) String() string {
	if int(f) < len(layouts) {
		return layouts[f].name
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// MarshalText implements encoding.TextMarshaler.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; it accepts what ParseFormat accepts.
func (f *Format) UnmarshalText(text []byte) error {
	parsed, err := ParseFormat(string(text))
	if err == nil {
		*f = parsed
	}
	return err
}

// shape is a format with the field paths given by the user.
type shape struct {
	format Format
	table  *jsonTable // nil if it is not JSON
}

// shapeOf returns a format with the given field paths, which only JSON formats support.
func shapeOf(format Format, given map[string]string) (shape, error) {
	s := shape{format: format, table: layouts[format].table}
	if s.table == nil {
		if len(given) > 0 {
			return s, invalid("Fields", "only JSON logs have field names, and the format %s is not JSON", s.format)
		}
		return s, nil
	}
	s.table = s.table.with(given)
	if len(s.table.time) == 0 {
		return s, invalid("Fields", "the format %s needs the path of the time, such as time=timestamp", s.format)
	}
	return s, nil
}

func (s shape) title() string { return layouts[s.format].title }

// fields returns the fields that the format may have.
func (s shape) fields() fieldSet {
	if s.table == nil {
		return layouts[s.format].text.fields
	}
	return s.table.has()
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
	return invalid(option, "the format %s has no %s; it has %s", s.format, name, has)
}

// available lists the fields that the format has for an option.
func (s shape) available(option string) []string {
	switch option {
	case "Cost":
		return append((s.fields() & setOf(fieldBytes)).names(), s.availableMembers()...)
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
	return append(names, s.availableMembers()...)
}

func (s shape) availableMembers() []string {
	if s.table == nil {
		return nil
	}
	return []string{"field:PATH"}
}

// newParser returns a parser for what the plan wants.
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
