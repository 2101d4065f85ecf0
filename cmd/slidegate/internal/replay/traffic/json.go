package traffic

import (
	"fmt"
	"net/textproto"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/jsonscan"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/rule"
)

// jsonParser parses logs with one JSON object per line.
type jsonParser struct {
	table  *jsonTable
	scan   jsonscan.Scanner
	clock  clock
	time   []int // slots in order of preference, as are all lists of slots here
	signs  []int
	values []wantedValue
}

// wantedValue is a value to extract from a line.
type wantedValue struct {
	into  int // the index in the values of an entry
	slots []int
}

// newJSONParser returns a parser that extracts what w wants. It also checks the paths, including those of the tables.
func newJSONParser(table *jsonTable, w wants) (*jsonParser, error) {
	p := &jsonParser{table: table}
	var err error
	if p.time, err = p.slots(table.time); err != nil {
		return nil, fmt.Errorf("time: %w", err)
	}
	if p.signs, err = p.slots(table.signs); err != nil {
		return nil, err
	}
	for f := range fieldCount {
		// The query is part of the path, and is set with it.
		if f == fieldQuery || !w.fields.has(f) && !(f == fieldPath && w.fields.has(fieldQuery)) {
			continue
		}
		slots, err := p.slots(table.names[f])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fieldNames[f], err)
		}
		p.values = append(p.values, wantedValue{into: int(f), slots: slots})
	}
	for i, extra := range w.extras {
		slots, err := p.extraSlots(extra)
		if err != nil {
			return nil, err
		}
		p.values = append(p.values, wantedValue{into: int(fieldCount) + i, slots: slots})
	}
	return p, nil
}

// slots requests the members at some paths.
func (p *jsonParser) slots(paths []string) ([]int, error) {
	var slots []int
	for _, path := range paths {
		names, err := jsonscan.SplitPath(path)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", path, err)
		}
		slots = append(slots, p.scan.Slot(names, false))
	}
	return slots, nil
}

func (p *jsonParser) extraSlots(extra fields.Field) ([]int, error) {
	if extra.Kind == fields.JSON {
		return p.slots([]string{extra.Name})
	}
	var slots []int
	for _, names := range p.table.headers(extra.Name) {
		slots = append(slots, p.scan.Slot(names, true))
	}
	return slots, nil
}

func (p *jsonParser) parse(line []byte, e *entry) (why string) {
	if !p.scan.Read(line) {
		return "JSON: " + p.scan.Reason()
	}
	if len(p.signs) > 0 && p.first(p.signs) == nil {
		return "request: not a request: the line has none of " + strings.Join(p.table.signs, ", ")
	}
	if why := p.parseTime(e); why != "" {
		return why
	}
	for i := range p.values {
		w := &p.values[i]
		raw := p.first(w.slots)
		if p.table.isLines && w.into < int(fieldCount) && len(raw) > 0 && (raw[0] == '[' || raw[0] == '{') {
			return fieldNames[w.into] + ": must be a string or a number"
		}
		if p.table.isLines && w.into == int(fieldKey) && raw == nil {
			return "key: " + p.table.names[fieldKey][0] + " is missing"
		}
		text := p.scan.Text(raw)
		if !p.table.isLines && w.into != int(fieldBytes) {
			text = present(text)
		}
		if w.into == int(fieldPath) {
			e.values[fieldPath], e.values[fieldQuery] = nil, nil
			if text != nil {
				e.setTarget(text)
			}
			continue
		}
		e.values[w.into] = text
	}
	return ""
}

func (p *jsonParser) parseTime(e *entry) (why string) {
	raw := p.first(p.time)
	if raw == nil {
		return "time: " + strings.Join(p.table.time, " or ") + " is missing"
	}
	e.time = raw
	if p.table.isLines && raw[0] != '"' {
		at, _, ok := decimal(raw, 3)
		if !ok {
			return "time: " + p.table.time[0] + " must be milliseconds since 1970 or a string"
		}
		return e.setTime(rule.Micros(at))
	}
	at, ok := p.clock.parse(p.scan.Text(raw))
	if !ok {
		return "time: want a time such as 2006-01-02T15:04:05Z, with a zone, or a number since 1970"
	}
	return e.setTime(at)
}

// first returns the raw value of the first of some members that the line has. Null counts as missing; a placeholder for a
// missing value is returned only if no other member has a value.
func (p *jsonParser) first(slots []int) []byte {
	var placeholder []byte
	for _, slot := range slots {
		raw := p.scan.Raw(slot)
		switch {
		case len(raw) == 0 || raw[0] == 'n':
		case !p.table.isLines && (string(raw) == `""` || string(raw) == `"-"`):
			placeholder = raw
		default:
			return raw
		}
	}
	return placeholder
}

// jsonTable holds the paths of the fields in a JSON log. A path consists of names separated by dots; of several paths,
// the first that the line has is used.
type jsonTable struct {
	time  []string
	names [fieldCount][]string // the path includes the query
	// signs distinguish requests from the other lines that a server writes to the same log: a line with none of them is
	// not a request.
	signs []string
	// headers returns the paths of a header, each as a list of names. It is nil if the log has no headers.
	headers func(name string) [][]string
	// isLines is set for the format lines: a bare number is in milliseconds, and "-" is a key like any other.
	isLines bool
}

// caddyTable is for the access log of Caddy 2. Its client_ip is the address of the client behind the proxies that Caddy
// trusts; versions before 2.7 did not have it, and before 2.5 address and port were one field.
var caddyTable = jsonTable{
	time: []string{"ts"},
	names: [fieldCount][]string{
		fieldAddress: {"request.client_ip", "request.remote_ip", "request.remote_addr"},
		fieldUser:    {"user_id"},
		fieldMethod:  {"request.method"},
		fieldPath:    {"request.uri"},
		fieldHost:    {"request.host"},
		fieldStatus:  {"status"},
		fieldBytes:   {"size"},
	},
	signs: []string{"request.method", "request.uri", "request.client_ip", "request.remote_ip", "request.remote_addr"},
	headers: func(name string) [][]string {
		return [][]string{{"request", "headers", name}}
	},
}

// traefikTable is for the access log of Traefik in JSON. Its time is when the line was written; Start is when the request
// was received.
var traefikTable = jsonTable{
	time: []string{"StartUTC", "StartLocal", "time"},
	names: [fieldCount][]string{
		fieldAddress: {"ClientHost", "ClientAddr"},
		fieldUser:    {"ClientUsername"},
		fieldMethod:  {"RequestMethod"},
		fieldPath:    {"RequestPath"},
		fieldHost:    {"RequestHost", "RequestAddr"},
		fieldStatus:  {"DownstreamStatus"},
		fieldBytes:   {"DownstreamContentSize"},
	},
	signs: []string{"RequestMethod", "RequestPath", "ClientHost", "ClientAddr", "DownstreamStatus"},
	headers: func(name string) [][]string {
		return [][]string{{"request_" + name}}
	},
}

// envoyTable is for the access log of Envoy in JSON, with the default names of Istio, Envoy Gateway and Contour. Clients
// can put anything into x_forwarded_for, so it is a header here and never the address.
var envoyTable = jsonTable{
	time: []string{"start_time", "@timestamp"},
	names: [fieldCount][]string{
		fieldAddress: {"downstream_remote_address", "downstream_remote_address_without_port"},
		fieldMethod:  {"method", ":method"},
		fieldPath:    {"x_envoy_original_path", "x-envoy-origin-path", "path", ":path"},
		fieldHost:    {"authority", ":authority"},
		fieldStatus:  {"response_code"},
		fieldBytes:   {"bytes_sent"},
	},
	signs: []string{"response_code", "method", "downstream_remote_address", "authority", ":authority"},
	headers: func(name string) [][]string {
		paths := [][]string{{strings.ReplaceAll(name, "-", "_")}, {name}}
		if textproto.CanonicalMIMEHeaderKey(name) == "X-Request-Id" {
			paths = append(paths, []string{"request_id"})
		}
		return paths
	},
}

// linesTable is for the format lines: {"t": 1767643391854, "key": "alice", "cost": 3}.
var linesTable = jsonTable{
	time:    []string{"t"},
	names:   [fieldCount][]string{fieldKey: {"key"}, fieldCost: {"cost"}},
	isLines: true,
}

// has returns the fields that the log may have.
func (t *jsonTable) has() fieldSet {
	var set fieldSet
	for f := range fieldCount {
		if len(t.names[f]) > 0 {
			set |= setOf(f)
		}
	}
	if set.has(fieldPath) {
		set |= setOf(fieldQuery)
	}
	return set
}

// with returns the table with its paths replaced by the given ones.
func (t *jsonTable) with(given map[string]string) *jsonTable {
	changed := *t
	if p, ok := given["time"]; ok {
		changed.time = []string{p}
	}
	for f, name := range fieldNames {
		if p, ok := given[name]; ok {
			changed.names[f] = []string{p}
		}
	}
	return &changed
}
