package jsonapi

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/rule"
)

// explain serves GET /v1/explain.
func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	req, p := queryRequest(r.URL.RawQuery)
	if p != nil {
		send(w, p)
		return
	}
	e, err := a.gate.Explain(r.Context(), req)
	if err != nil {
		a.fail(w, r, gate.Peek, err)
		return
	}
	problemjson.SendJSON(w, e)
}

// queryRequest reads a request from a query, as strictly as from a body. A key in a query may be any bytes, such as
// %FF.
func queryRequest(raw string) (gate.Request, *problem) {
	req := gate.Request{Cost: 1}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return req, badField("", "invalid query: a % without two hex digits, or a semicolon")
	}
	for name, given := range values {
		if fieldOf(name, requestFields) < 0 {
			names := namesOf(requestFields)
			p := badField(name, "is not a field of this query (want one of "+strings.Join(names, ", ")+")")
			p.Meant, _ = errtext.Nearest(name, names)
			return req, p
		}
		if len(given) > 1 {
			return req, badField(name, "duplicate field; keep one")
		}
		if detail := queryField(&req, name, given[0]); detail != "" {
			return req, badField(name, detail)
		}
	}
	if values.Has("key") == values.Has("key_base64") {
		return req, badField("key", "give exactly one of key and key_base64")
	}
	return req, nil
}

// badField returns the problem of an invalid field.
func badField(name, detail string) *problem {
	return &problem{Status: http.StatusBadRequest, Field: name, Detail: detail}
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
			return wantAddress
		}
		req.Address = addr
	}
	return ""
}

// explainedRequest is the body of POST /v1/explain/request.
type explainedRequest struct {
	Method  string              `json:"method"`
	URL     string              `json:"url"` // a path and a query, or a whole URL
	Headers map[string][]string `json:"headers"`
	Address string              `json:"address"`
}

// explainRequest serves POST /v1/explain/request.
func (a *API) explainRequest(w http.ResponseWriter, r *http.Request) {
	var body explainedRequest
	decoder := json.NewDecoder(io.LimitReader(r.Body, MaxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil || decoder.More() {
		// The error may contain a header, which may be a secret.
		send(w, badField("", "invalid JSON, or an unknown field; want an object of method, url, headers (names with lists of values) and address"))
		return
	}
	original, p := body.request()
	if p != nil {
		send(w, p)
		return
	}
	rejected := a.reject(original) // may remove headers, so that the gate sees what it would see
	e, err := a.gate.ExplainRequest(r.Context(), original)
	if err != nil {
		a.fail(w, r, gate.Peek, err)
		return
	}
	if rejected != "" {
		e.Allowed, e.Rejected, e.Policy = false, rejected, ""
	}
	problemjson.SendJSON(w, e)
}

// request returns the request that the body describes, as if its client had connected directly.
func (b *explainedRequest) request() (*http.Request, *problem) {
	at, err := url.ParseRequestURI(b.URL) // as servers do: it is no host that follows //, and no fragment that follows #
	if err != nil || !strings.HasPrefix(at.Path, "/") {
		return nil, badField("url", "must be a path, such as /login?next=home, or a URL")
	}
	r := &http.Request{Method: b.Method, URL: at, Host: at.Host, Header: http.Header{}, Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RequestURI: b.URL}
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	for name, values := range b.Headers {
		if name = http.CanonicalHeaderKey(name); name == "Host" && len(values) > 0 {
			r.Host = values[0]
			continue
		}
		r.Header[name] = append(r.Header[name], values...)
	}
	if b.Address != "" {
		addr, err := netip.ParseAddr(b.Address)
		if err != nil {
			return nil, badField("address", wantAddress)
		}
		r.RemoteAddr = netip.AddrPortFrom(addr, 0).String()
	}
	return r, nil
}
