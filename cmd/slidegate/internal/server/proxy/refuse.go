package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/tell"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// problem is an answer of the proxy itself (RFC 9457). It never has a key in it.
type problem struct {
	Type       string   `json:"type"`
	Title      string   `json:"title"`
	Status     int      `json:"status"`
	Detail     string   `json:"detail"`
	Violated   []string `json:"violated-policies,omitempty"`
	RetryAfter int64    `json:"retry_after,omitempty"` // in seconds
}

// The types of problems, as registered with IANA.
const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

var (
	unchecked = &problem{Type: reducedCapacity, Status: http.StatusServiceUnavailable, Title: "Service unavailable",
		Detail: "The rate limit could not be checked."}
	denied       = &problem{Status: http.StatusForbidden, Title: "Forbidden", Detail: "The client is on a deny list."}
	undecidable  = &problem{Status: http.StatusInternalServerError, Title: "Internal server error", Detail: "The rate limit could not be checked."}
	unreachable  = &problem{Status: http.StatusBadGateway, Title: "Bad gateway", Detail: "The application could not be reached."}
	late         = &problem{Status: http.StatusGatewayTimeout, Title: "Gateway timeout", Detail: "The application did not answer in time."}
	clientFailed = &problem{Status: http.StatusBadRequest, Title: "Bad request", Detail: "The body of the request did not come to its end."}
)

var (
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
)

// send answers with the problem.
func (p *problem) send(w http.ResponseWriter) {
	whole := *p
	whole.Type = cmp.Or(p.Type, "about:blank")
	text, err := json.Marshal(&whole)
	if err != nil {
		panic(err) // texts and numbers alone
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = problemType, noStore
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // a client that has gone away is not worth an error
}

// undecided answers a request about which the gate had an error. What happens when the store cannot be reached is the
// failure mode's matter, so that this is one of a policy that the store cannot decide, or of a client that has gone away.
func (p *Proxy) undecided(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		panic(http.ErrAbortHandler) // nobody waits for an answer
	}
	p.warn("proxy: the limits could not be checked", err)
	if errors.Is(err, store.ErrUnsupported) {
		undecidable.send(w)
		return
	}
	unchecked.send(w)
}

// refuse answers a request that the gate does not let through.
func (p *Proxy) refuse(w http.ResponseWriter, v *gate.Verdict) {
	if v.By == gate.ByDenyList {
		denied.send(w)
		return
	}
	p.write(w.Header(), v)
	wait := max(0, tell.Wait(&v.Decision))
	if v.Decision.Flags&rule.FallbackClosed != 0 {
		answer := *unchecked
		answer.RetryAfter = wait
		answer.send(w)
		return
	}
	answer := problem{Type: quotaExceeded, Title: "Too many requests", Status: http.StatusTooManyRequests,
		Detail: sentence(wait), Violated: []string{v.Decision.Limit}, RetryAfter: wait}
	answer.send(w)
}

func sentence(wait int64) string {
	switch wait {
	case 0:
		return "The request is larger than the quota, and will never be admitted."
	case 1:
		return "The quota is used up. Try again in 1 second."
	}
	return fmt.Sprintf("The quota is used up. Try again in %d seconds.", wait)
}
