package proxy

import (
	"context"
	"errors"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/httplimit"
)

// The answers of the proxy itself to requests that the application did not answer.
var (
	undecidable  = problemjson.Document{Status: http.StatusInternalServerError, Detail: "The rate limit could not be checked."}
	unreachable  = problemjson.Document{Status: http.StatusBadGateway, Detail: "The application could not be reached."}
	late         = problemjson.Document{Status: http.StatusGatewayTimeout, Detail: "The application did not answer in time."}
	clientFailed = problemjson.Document{Status: http.StatusBadRequest, Detail: "The body of the request did not come to its end."}
)

// told returns what the answer to an admitted request tells, or nil for nothing.
func (p *Proxy) told(v *gate.Verdict) http.Header {
	if p.opts.Headers == httplimit.HeadersNone || v.Policy == "" {
		return nil
	}
	h := make(http.Header, 3)
	p.answers.WriteHeader(h, v)
	return h
}

// undecided answers a request about which the gate had an error. What happens when the store cannot be reached is the
// failure mode's matter, so that this is one of a policy that the store cannot decide, or of a client that has gone away.
func (p *Proxy) undecided(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		panic(http.ErrAbortHandler) // nobody waits for an answer
	}
	p.failures.Warn("proxy: the limits could not be checked", err)
	if errors.Is(err, slidegate.ErrUnsupported) {
		undecidable.Send(w)
		return
	}
	p.refuse(w, &gate.Verdict{Decision: httplimit.Undecided()})
}

// refuse answers a request that the gate does not let through.
func (p *Proxy) refuse(w http.ResponseWriter, v *gate.Verdict) {
	if v.Forbidden() {
		gate.Forbidden(v).Send(w)
		return
	}
	p.answers.WriteHeader(w.Header(), v)
	problemjson.Send(w, httplimit.RefusalStatus(&v.Decision), p.answers.Refusal(v, p.gate.Words(v.Policy)))
}
