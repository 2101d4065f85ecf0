package jsonapi

import (
	"context"
	"net/http"
	"runtime"
	"slices"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// verb is an operation of the gate, served at a path.
type verb struct {
	op      gate.Op
	read    func(*call) bool                  // reads the body
	write   func(c *call, d *policy.Decision) // writes the body of the response; nil means that there is none
	refused int                               // the status of a refusal; with 429, the response has the limit headers too
	changes string                            // what Options.OnChange is called with; "" if it is not
}

var (
	allow   = verb{op: gate.Allow, read: (*call).readAllow, write: (*call).writeDecision, refused: http.StatusTooManyRequests}
	peek    = verb{op: gate.Peek, read: readOne(requestFields), write: (*call).writeDecision, refused: http.StatusOK}
	charge  = verb{op: gate.Charge, read: readOne(requestFields), write: (*call).writeDecision, refused: http.StatusOK}
	refund  = verb{op: gate.Refund, read: readOne(requestFields), write: (*call).writeDecision, refused: http.StatusOK, changes: "refund"}
	reset   = verb{op: gate.Reset, read: readOne(resetFields), changes: "reset"}
	reserve = verb{op: gate.Reserve, read: readOne(takeFields), write: (*call).writeReservation, refused: http.StatusTooManyRequests}
	acquire = verb{op: gate.Acquire, read: readOne(takeFields), write: (*call).writeReservation, refused: http.StatusTooManyRequests}
	// A slot or units that are no longer held are a conflict: its holder must stop, or acquire another.
	renew   = verb{op: gate.Renew, read: (*call).readEnd, write: (*call).writeDecision, refused: http.StatusConflict}
	release = verb{op: gate.Release, read: (*call).readEnd, write: (*call).writeSettlement}
	settle  = verb{op: gate.Settle, read: (*call).readSettle, write: (*call).writeSettlement}
	cancel  = verb{op: gate.Cancel, read: (*call).readCancel, write: (*call).writeSettlement}
)

// serve serves a request for the operation. A decision is a 200 if it admits, and a 503 if the limit could not be checked.
func (v *verb) serve(a *API, w http.ResponseWriter, r *http.Request) {
	c := a.begin(w, r, v.read)
	if c == nil {
		return
	}
	defer a.end(c)
	op := v.op
	switch {
	case c.batch:
		a.allowBatch(w, r, c)
		return
	case c.upTo:
		op = gate.AllowUpTo
	case op == gate.Reserve || op == gate.Acquire:
		c.one.Reservation = &c.reservation
		// The goroutine of net/http that notices that the client has left began when the body was read. It runs first: a
		// store in memory would decide before it.
		runtime.Gosched()
	}
	if op == gate.Allow || op == gate.Reserve || op == gate.Acquire {
		a.gate.AllowWait(w, c.one.Wait)
	}
	d, err := a.do(r.Context(), op, c.one)
	switch {
	case err != nil:
		a.fail(w, r, op, err)
		return
	case gate.Closed(&d): // as forward-auth and the proxy do
		a.responder.WriteHeader(w.Header(), &d)
		problemjson.Send(w, http.StatusServiceUnavailable, a.responder.Refusal(&d, nil))
		return
	case v.changes != "":
		a.onChange(r.Context(), v.changes, c.one)
	}
	if v.write == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if v.refused == http.StatusTooManyRequests {
		a.responder.WriteHeader(w.Header(), &d)
	}
	v.write(c, &d)
	status := http.StatusOK
	if !d.Decision.Allowed {
		status = v.refused
	}
	if op != gate.Reserve && op != gate.Acquire {
		c.respond(w, status)
	} else if !c.deliver(w, status) && len(c.reservation.Charges) > 0 && c.one.ID == "" { // the client is known to have left
		a.gate.CancelUnsent(r.Context(), c.reservation)
	}
}

// do has the gate carry out an operation. The key of a reset is an operator's text.
func (a *API) do(ctx context.Context, op gate.Op, req gate.Request) (d policy.Decision, err error) {
	if op == gate.Reset {
		if req.Key, err = a.gate.Key(req.Policy, req.Key); err != nil {
			return d, err
		}
	}
	return a.gate.Do(ctx, op, req)
}

// allowBatch decides all requests in one call to the gate. The status is always 200; each result has its own status.
func (a *API) allowBatch(w http.ResponseWriter, r *http.Request, c *call) {
	n := len(c.requests)
	c.decisions = slices.Grow(c.decisions[:0], n)[:n]
	c.errs = slices.Grow(c.errs[:0], n)[:n]
	a.gate.AllowBatch(r.Context(), c.requests, c.decisions, c.errs)
	c.out = append(c.out, `{"results":[`...)
	var last lastLimit
	for i := range c.decisions {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		d := &c.decisions[i]
		status, detail := http.StatusOK, ""
		switch {
		case c.errs[i] != nil:
			status, detail = a.classify(r, c.errs[i], false)
		case gate.Closed(d):
			status, detail = http.StatusServiceUnavailable, gate.ErrClosed.Error()
		case !d.Decision.Allowed:
			status = http.StatusTooManyRequests
		}
		c.out = appendInt(c.out, `{"status":`, int64(status))
		if detail != "" {
			c.out = appendText(c.out, `,"error":`, detail)
		} else {
			c.out = appendDecision(append(c.out, ','), d, &last)
		}
		c.out = append(c.out, '}')
	}
	c.out = append(c.out, "]}\n"...)
	c.respond(w, http.StatusOK)
}

func (c *call) writeDecision(d *policy.Decision) {
	c.out = appendDecision(append(c.out, '{'), d, nil)
	c.out = append(c.out, "}\n"...)
}

// writeReservation writes a decision and its reservation, which is null if the request was refused.
func (c *call) writeReservation(d *policy.Decision) {
	c.out = appendDecision(append(c.out, '{'), d, nil)
	c.out = append(c.out, `,"reservation":`...)
	if c.reservation.ID == "" {
		c.out = append(c.out, "null"...)
	} else {
		c.out = appendJSON(c.out, c.reservation)
	}
	if ttl := gate.TimeToLive(&c.reservation); ttl > 0 {
		c.out = appendInt(c.out, `,"ttl_us":`, ttl.Microseconds())
	}
	c.out = append(c.out, "}\n"...)
}

// writeSettlement writes what ending a reservation did to each of its limits.
func (c *call) writeSettlement(d *policy.Decision) {
	c.out = appendBool(c.out, `{"repeated":`, d.Decision.Flags&rule.Repeated != 0)
	c.out = append(c.out, `,"limits":[`...)
	for i := range d.Limits {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = appendText(c.out, `{"limit":`, gate.Label(&d.Limits[i]))
		c.out = appendInt(c.out, `,"given_back":`, d.Decision.Answers[i].Granted)
		c.out = append(c.out, '}')
	}
	c.out = append(c.out, "]}\n"...)
}
