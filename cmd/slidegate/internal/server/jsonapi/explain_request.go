package jsonapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// explainedRequest is the body of POST /v1/explain/request.
type explainedRequest struct {
	Method  string              `json:"method"`
	URL     string              `json:"url"` // a path and a query, or a whole URL
	Headers map[string][]string `json:"headers"`
	Address string              `json:"address"`
}

// maxExplained bounds the body of POST /v1/explain/request.
const maxExplained = 1 << 20

// explainRequest serves POST /v1/explain/request.
func (a *API) explainRequest(w http.ResponseWriter, r *http.Request) {
	var body explainedRequest
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxExplained))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil || decoder.More() {
		// The error may contain a header, which may be a secret.
		send(w, &problem{Status: http.StatusBadRequest, Detail: "invalid JSON, or an unknown field; want an object of method, url, headers (names with lists of values) and address"})
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
		a.fail(w, err)
		return
	}
	if rejected != "" {
		e.Allowed, e.Rejected, e.Policy = false, rejected, ""
	}
	sendExplanation(w, e)
}

// request returns the request that the body describes, as if its client had connected directly.
func (b *explainedRequest) request() (*http.Request, *problem) {
	at, err := url.ParseRequestURI(b.URL) // as servers do: it is no host that follows //, and no fragment that follows #
	if err != nil || !strings.HasPrefix(at.Path, "/") {
		return nil, &problem{Status: http.StatusBadRequest, Field: "url", Detail: "must be a path, such as /login?next=home, or a URL"}
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
			return nil, &problem{Status: http.StatusBadRequest, Field: "address", Detail: "must be an IP address without a port, such as 203.0.113.7 or 2001:db8::7"}
		}
		r.RemoteAddr = netip.AddrPortFrom(addr, 0).String()
	}
	return r, nil
}
