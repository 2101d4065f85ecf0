package proxy

import (
	"errors"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/policy"
)

// Responses that the proxy writes itself when the application sends none.
var (
	undecidable  = problemjson.Document{Status: http.StatusInternalServerError, Detail: "The rate limit could not be checked."}
	unreachable  = problemjson.Document{Status: http.StatusBadGateway, Detail: "The application could not be reached."}
	timedOut     = problemjson.Document{Status: http.StatusGatewayTimeout, Detail: "The application did not answer in time."}
	clientFailed = problemjson.Document{Status: http.StatusBadRequest, Detail: "The body of the request is incomplete."}
)

// limitHeader returns the limit headers for the response to an admitted request; nil if there are none.
func (p *Proxy) limitHeader(v *policy.Decision) http.Header {
	if p.opts.Headers == httplimit.HeadersNone || v.Policy == "" {
		return nil
	}
	h := make(http.Header, 3)
	p.responder.WriteHeader(h, v)
	return h
}

// gateFailed responds to a request for which the gate returned an error. Outages are handled by the failure modes, so the cause is a
// policy that the store cannot decide, or a client that has disconnected.
func (p *Proxy) gateFailed(w http.ResponseWriter, r *http.Request, err error) {
	if problemjson.HasLeft(r, err) {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	p.failures.Warn("proxy: the limits could not be checked", err)
	if errors.Is(err, slidegate.ErrUnsupported) {
		undecidable.Send(w)
		return
	}
	p.refuse(w, r, &policy.Decision{Decision: reply.Undecided()})
}

// refuse responds to a request that the gate refuses.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, v *policy.Decision) {
	if !v.Forbidden() {
		p.responder.WriteHeader(w.Header(), v)
	}
	switch {
	case isGRPC(r):
		refuseCall(w, v)
		return
	case v.Forbidden():
		gate.Forbidden(v).Send(w)
		return
	}
	words := p.gate.RefusalTexts(v.Policy)
	problemjson.Send(w, p.responder.Status(v, words), p.responder.Refusal(v, words))
}
