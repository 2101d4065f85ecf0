package traffic

import (
	"net/textproto"
	"strings"
)

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
	// isLines is set for FormatLines: a bare number is in milliseconds, and "-" is a key like any other.
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

// linesTable is for FormatLines: {"t": 1767643391854, "key": "alice", "cost": 3}.
var linesTable = jsonTable{
	time:    []string{"t"},
	names:   [fieldCount][]string{fieldKey: {"key"}, fieldCost: {"cost"}},
	isLines: true,
}

// jsonLogTable is for any other log in JSON: Options.Fields has the paths.
var jsonLogTable = jsonTable{}

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
