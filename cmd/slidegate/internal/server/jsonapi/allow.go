package jsonapi

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
)

// allow serves POST /v1/allow: one request or a batch.
func (a *API) allow(w http.ResponseWriter, r *http.Request) {
	c := a.begin(w, r)
	if c == nil {
		return
	}
	defer a.end(c)
	switch {
	case !c.readAllow():
		send(w, c.scan.problem)
	case c.batch:
		a.allowBatch(w, r, c)
	default:
		a.allowOne(w, r, c)
	}
}

func (a *API) allowOne(w http.ResponseWriter, r *http.Request, c *call) {
	var v gate.Verdict
	var err error
	if c.upTo {
		v, err = a.gate.AllowUpTo(r.Context(), c.one)
	} else {
		v, err = a.gate.Allow(r.Context(), c.one)
	}
	a.decide(w, c, &v, err)
}

// decide sends a decision: 200 if it admits, 429 if it denies, 503 if the limit could not be checked.
func (a *API) decide(w http.ResponseWriter, c *call, v *gate.Verdict, err error) {
	if err != nil {
		a.fail(w, err)
		return
	}
	if a.refuseClosed(w, v) {
		return
	}
	a.responder.WriteHeader(w.Header(), v)
	c.out = append(c.out, '{')
	c.out = appendVerdict(c.out, v, nil)
	c.out = append(c.out, "}\n"...)
	c.respond(w, statusOf(v))
}

func statusOf(v *gate.Verdict) int {
	if v.Decision.Allowed {
		return http.StatusOK
	}
	return http.StatusTooManyRequests
}

// allowBatch decides all requests in one call to the gate. The status is always 200; each result has its own status.
func (a *API) allowBatch(w http.ResponseWriter, r *http.Request, c *call) {
	n := len(c.requests)
	c.verdicts = slices.Grow(c.verdicts[:0], n)[:n]
	c.errs = slices.Grow(c.errs[:0], n)[:n]
	a.gate.AllowBatch(r.Context(), c.requests, c.verdicts, c.errs)
	c.out = append(c.out, `{"results":[`...)
	var last lastLimit
	for i := range c.verdicts {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, `{"status":`...)
		if err := c.errs[i]; err != nil {
			status, detail := a.classify(err)
			c.out = appendUndecided(c.out, status, detail)
		} else if isClosed(&c.verdicts[i]) {
			c.out = appendUndecided(c.out, http.StatusServiceUnavailable, notChecked)
		} else {
			c.out = strconv.AppendInt(c.out, int64(statusOf(&c.verdicts[i])), 10)
			c.out = append(c.out, ',')
			c.out = appendVerdict(c.out, &c.verdicts[i], &last)
		}
		c.out = append(c.out, '}')
	}
	c.out = append(c.out, "]}\n"...)
	c.respond(w, http.StatusOK)
}

// appendUndecided appends the status of a request without a decision, and the reason.
func appendUndecided(to []byte, status int, detail string) []byte {
	to = strconv.AppendInt(to, int64(status), 10)
	to = append(to, `,"error":`...)
	return appendText(to, detail)
}
