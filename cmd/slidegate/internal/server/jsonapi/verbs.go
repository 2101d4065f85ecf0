package jsonapi

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"strconv"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
)

// beginRequest reads the body of an endpoint that takes one request.
func (a *API) beginRequest(w http.ResponseWriter, r *http.Request, fields int) *call {
	c := a.begin(w, r)
	if c == nil {
		return nil
	}
	if !c.scan.request(&c.one, fields) || !c.scan.end() {
		send(w, c.scan.problem)
		a.end(c)
		return nil
	}
	return c
}

// peek serves POST /v1/peek. The status is 200 even if the decision is a denial.
func (a *API) peek(w http.ResponseWriter, r *http.Request) {
	a.serveVerdict(w, r, func(ctx context.Context, req gate.Request) (gate.Verdict, error) {
		return a.inspector(req.Policy).Peek(ctx, req)
	})
}

// refund serves POST /v1/refund. Granted is the amount refunded.
func (a *API) refund(w http.ResponseWriter, r *http.Request) {
	a.serveVerdict(w, r, func(ctx context.Context, req gate.Request) (gate.Verdict, error) {
		v, err := a.gate.Refund(ctx, req)
		if err == nil {
			a.onChange(ctx, "refund", req)
		}
		return v, err
	})
}

// charge serves POST /v1/charge. Remaining is what is left after the charge.
func (a *API) charge(w http.ResponseWriter, r *http.Request) { a.serveVerdict(w, r, a.gate.Charge) }

func (a *API) serveVerdict(w http.ResponseWriter, r *http.Request, decide func(context.Context, gate.Request) (gate.Verdict, error)) {
	c := a.beginRequest(w, r, costFields)
	if c == nil {
		return
	}
	defer a.end(c)
	v, err := decide(r.Context(), c.one)
	if err != nil {
		a.fail(w, err)
		return
	}
	if a.refuseClosed(w, &v) {
		return
	}
	c.out = append(c.out, '{')
	c.out = appendVerdict(c.out, &v, nil)
	c.out = append(c.out, "}\n"...)
	c.respond(w, http.StatusOK)
}

// reserve serves POST /v1/reserve: a decision, and the reservation for settle and cancel.
func (a *API) reserve(w http.ResponseWriter, r *http.Request) { a.hold(w, r, a.gate.Reserve) }

// acquire serves POST /v1/acquire: a decision, and the reservation for renew, release, settle and cancel.
func (a *API) acquire(w http.ResponseWriter, r *http.Request) { a.hold(w, r, a.gate.Acquire) }

// hold takes what the client asks for, and cancels it if the client is known to have left before the response was sent.
func (a *API) hold(w http.ResponseWriter, r *http.Request,
	reserve func(context.Context, gate.Request) (slidegate.Reservation, gate.Verdict, error)) {
	c := a.beginRequest(w, r, costFields)
	if c == nil {
		return
	}
	defer a.end(c)
	// The goroutine of net/http that notices that the client has left began when the body was read. It runs first: a store in
	// memory would decide before it.
	runtime.Gosched()
	reservation, v, err := reserve(r.Context(), c.one)
	if err != nil {
		a.fail(w, err)
		return
	}
	if a.refuseClosed(w, &v) {
		return
	}
	a.responder.WriteHeader(w.Header(), &v)
	c.out = append(c.out, '{')
	c.out = appendVerdict(c.out, &v, nil)
	c.out = append(c.out, `,"reservation":`...)
	c.out = appendReservation(c.out, &reservation)
	if ttl := gate.TimeToLive(&reservation); ttl > 0 {
		c.out = append(c.out, `,"ttl_us":`...)
		c.out = strconv.AppendInt(c.out, ttl.Microseconds(), 10)
	}
	c.out = append(c.out, "}\n"...)
	if !c.deliver(w, statusOf(&v)) && len(reservation.Charges) > 0 {
		a.gate.CancelUnsent(r.Context(), reservation)
	}
}

// appendReservation appends a reservation, or null if it was denied.
func appendReservation(to []byte, r *slidegate.Reservation) []byte {
	if r.ID == "" {
		return append(to, "null"...)
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot fail for strings, bytes and numbers
	}
	return append(to, text...)
}

// settle serves POST /v1/settle.
func (a *API) settle(w http.ResponseWriter, r *http.Request) {
	a.endReservation(w, r, settleNames, func(ctx context.Context, done *reservation) (gate.Settlement, error) {
		return a.gate.Settle(ctx, done.policy, done.value, done.used...)
	})
}

// cancel serves POST /v1/cancel.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) {
	a.endReservation(w, r, endNames, func(ctx context.Context, done *reservation) (gate.Settlement, error) {
		return a.gate.Cancel(ctx, done.policy, done.value)
	})
}

// release serves POST /v1/release.
func (a *API) release(w http.ResponseWriter, r *http.Request) {
	a.endReservation(w, r, endNames, func(ctx context.Context, done *reservation) (gate.Settlement, error) {
		return a.gate.Release(ctx, done.policy, done.value)
	})
}

// endReservation ends a reservation, even if the client has disconnected.
func (a *API) endReservation(w http.ResponseWriter, r *http.Request, fields []string,
	end func(context.Context, *reservation) (gate.Settlement, error)) {
	c := a.beginSettle(w, r, fields)
	if c == nil {
		return
	}
	defer a.end(c)
	done, err := end(r.Context(), &c.reservation)
	if err != nil {
		a.fail(w, err)
		return
	}
	c.out = appendSettlement(c.out, &done)
	c.respond(w, http.StatusOK)
}

// beginSettle reads a request about a reservation.
func (a *API) beginSettle(w http.ResponseWriter, r *http.Request, fields []string) *call {
	c := a.begin(w, r)
	if c == nil {
		return nil
	}
	if !c.readSettle(fields) {
		send(w, c.scan.problem)
		a.end(c)
		return nil
	}
	return c
}

// appendSettlement appends the result of ending a reservation.
func appendSettlement(to []byte, done *gate.Settlement) []byte {
	to = append(to, `{"repeated":`...)
	to = strconv.AppendBool(to, done.Repeated)
	to = append(to, `,"limits":[`...)
	for i := range done.Limits {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, `{"limit":`...)
		to = appendText(to, done.Limits[i].Limit)
		to = append(to, `,"given_back":`...)
		to = strconv.AppendInt(to, done.Limits[i].Returned, 10)
		to = append(to, '}')
	}
	return append(to, "]}\n"...)
}

// renew serves POST /v1/renew. A slot that is no longer held is a conflict: its holder must stop, or acquire another.
func (a *API) renew(w http.ResponseWriter, r *http.Request) {
	c := a.beginSettle(w, r, endNames)
	if c == nil {
		return
	}
	defer a.end(c)
	v, err := a.gate.Renew(r.Context(), c.reservation.policy, c.reservation.value)
	if err != nil {
		a.fail(w, err)
		return
	}
	if a.refuseClosed(w, &v) {
		return
	}
	c.out = append(c.out, '{')
	c.out = appendVerdict(c.out, &v, nil)
	c.out = append(c.out, "}\n"...)
	status := http.StatusOK
	if !v.Decision.Allowed {
		status = http.StatusConflict
	}
	c.respond(w, status)
}

// reset serves POST /v1/reset.
func (a *API) reset(w http.ResponseWriter, r *http.Request) {
	c := a.beginRequest(w, r, keyFields)
	if c == nil {
		return
	}
	defer a.end(c)
	if err := a.resetKeys(r.Context(), c.one); err != nil {
		a.fail(w, err)
		return
	}
	a.onChange(r.Context(), "reset", c.one)
	w.WriteHeader(http.StatusNoContent)
}

// resetKeys resets all keys that an operator's text means.
func (a *API) resetKeys(ctx context.Context, req gate.Request) error {
	keys := []string{req.Key}
	inspector := a.inspector(req.Policy)
	if inspector == Inspector(a.gate) {
		var err error
		if keys, err = a.gate.Keys(req.Policy, req.Key); err != nil {
			return err
		}
	}
	for _, key := range keys {
		req.Key = key
		if err := inspector.Reset(ctx, req); err != nil {
			return err
		}
	}
	return nil
}
