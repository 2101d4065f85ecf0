package jsonapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/config/errtext"
	"github.com/slidegate/slidegate/rule"
)

// explain serves GET /v1/explain.
func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	req, p := queryRequest(r.URL.RawQuery)
	if p != nil {
		send(w, p)
		return
	}
	e, err := a.inspector(req.Policy).Explain(r.Context(), req)
	if err != nil {
		a.fail(w, err)
		return
	}
	sendExplanation(w, e)
}

// sendExplanation sends an explanation.
func sendExplanation(w http.ResponseWriter, e any) {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // cannot fail for this type
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = jsonType, noStore
	_, _ = w.Write(append(text, '\n'))
}

// queryRequest reads a request from a query, as strictly as from a body. A key in a query may be any bytes, such as
// %FF.
func queryRequest(raw string) (gate.Request, *problem) {
	req := gate.Request{Cost: 1}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return req, &problem{Status: http.StatusBadRequest, Detail: "invalid query: a % without two hex digits, or a semicolon"}
	}
	names := fieldNames[:costFields] // the fields of a request
	for name, given := range values {
		if fieldOf(name, names) < 0 {
			p := &problem{Status: http.StatusBadRequest, Field: name, Detail: "is not a field of this query (want one of " + strings.Join(names, ", ") + ")"}
			p.Meant, _ = errtext.Nearest(name, names)
			return req, p
		}
		if len(given) > 1 {
			return req, &problem{Status: http.StatusBadRequest, Field: name, Detail: "duplicate field; keep one"}
		}
		if detail := queryField(&req, name, given[0]); detail != "" {
			return req, &problem{Status: http.StatusBadRequest, Field: name, Detail: detail}
		}
	}
	if values.Has("key") == values.Has("key_base64") {
		return req, &problem{Status: http.StatusBadRequest, Field: "key", Detail: "give exactly one of key and key_base64"}
	}
	return req, nil
}

// queryField reads one field, or returns what is wrong with it.
func queryField(req *gate.Request, name, value string) (detail string) {
	switch name {
	case "policy":
		req.Policy = value
	case "plan":
		req.Plan = value
	case "key":
		req.Key = value
	case "key_base64":
		key, err := base64.StdEncoding.Strict().DecodeString(value)
		if err != nil || strings.ContainsAny(value, "\r\n") {
			return "must be base64 with padding (RFC 4648, section 4); in a query, write + as %2B"
		}
		req.Key = string(key)
	case "cost":
		cost, err := strconv.ParseUint(value, 10, 63)
		if err != nil || cost > rule.MaxQuota {
			return "must be a whole number from 0 to " + strconv.FormatInt(rule.MaxQuota, 10)
		}
		req.Cost = int64(cost)
	case "address":
		addr, err := netip.ParseAddr(value)
		if err != nil {
			return "must be an IP address without a port, such as 203.0.113.7 or 2001:db8::7"
		}
		req.Address = addr
	}
	return ""
}
