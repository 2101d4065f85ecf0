package traffic

import (
	"net/textproto"
	"strings"
)

// jsonTable says where in a JSON log things are. A path is names with dots between them; of several the first that the
// line has counts.
type jsonTable struct {
	time  []string
	names [fieldCount][]string // path is with the query
	// signs are what tells a request from the other things that a server writes into the same log: a line with none of
	// them is no request.
	signs []string
	// headers returns where a header is, as names, or is nil if the log has none.
	headers func(name string) [][]string
	// ours is set for our own lines: a bare number is milliseconds, and "-" is a key like any other.
	ours bool
}

// caddyTable is the access log of Caddy 2. Its client_ip is the client's address behind those proxies that Caddy was told
// to trust; versions before 2.7 did not have it, and before 2.5 address and port were one.
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

// traefikTable is the access log of Traefik in JSON. Its time is when the line was written; Start is when the request
// came.
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

// envoyTable is the access log of Envoy in JSON, with the names that Istio, Envoy Gateway and Contour give by default.
// Who is in front of Envoy may write anything into x_forwarded_for, so it is a header here and never the address.
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

// linesTable is our own format, {"t": 1767643391854, "key": "alice", "cost": 3}.
var linesTable = jsonTable{
	time:  []string{"t"},
	names: [fieldCount][]string{fieldKey: {"key"}, fieldCost: {"cost"}},
	ours:  true,
}

// jsonLogTable is any other log in JSON: where things are is said by those who know.
var jsonLogTable = jsonTable{}

// has returns the fields that the log can have.
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

// with returns the table with the paths that were given for some names instead of its own.
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
