package jsonapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
)

// beginAsk reads a request that is one ask.
func (a *API) beginAsk(w http.ResponseWriter, r *http.Request, fields int) *call {
	c := a.begin(w, r)
	if c == nil {
		return nil
	}
	if !c.scan.ask(&c.one, fields) || !c.scan.end() {
		send(w, c.scan.problem)
		a.end(c)
		return nil
	}
	return c
}

// peek serves POST /v1/peek. The question was answered whatever the answer is, so the status is 200.
func (a *API) peek(w http.ResponseWriter, r *http.Request) { a.tellOnly(w, r, a.gate.Peek) }

// refund serves POST /v1/refund. Granted is what was given back.
func (a *API) refund(w http.ResponseWriter, r *http.Request) { a.tellOnly(w, r, a.gate.Refund) }

// charge serves POST /v1/charge. What remains is what is left after the charge.
func (a *API) charge(w http.ResponseWriter, r *http.Request) { a.tellOnly(w, r, a.gate.Charge) }

func (a *API) tellOnly(w http.ResponseWriter, r *http.Request, ask func(context.Context, gate.Ask) (gate.Verdict, error)) {
	c := a.beginAsk(w, r, costFields)
	if c == nil {
		return
	}
	defer a.end(c)
	v, err := ask(r.Context(), c.one)
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
	c.answer(w, http.StatusOK)
}

// reserve serves POST /v1/reserve: a decision, and with it what settle and cancel take.
func (a *API) reserve(w http.ResponseWriter, r *http.Request) {
	c := a.beginAsk(w, r, costFields)
	if c == nil {
		return
	}
	defer a.end(c)
	made, v, err := a.gate.Reserve(r.Context(), c.one)
	if err != nil {
		a.fail(w, err)
		return
	}
	if a.refuseClosed(w, &v) {
		return
	}
	a.answers.WriteHeader(w.Header(), &v)
	c.out = append(c.out, '{')
	c.out = appendVerdict(c.out, &v, nil)
	c.out = append(c.out, `,"reservation":`...)
	c.out = appendReservation(c.out, &made)
	c.out = append(c.out, "}\n"...)
	c.answer(w, statusOf(&v))
}

// appendReservation appends null for a reservation that was refused.
func appendReservation(to []byte, made *slidegate.Reservation) []byte {
	if made.ID == "" {
		return append(to, "null"...)
	}
	text, err := json.Marshal(made)
	if err != nil {
		panic(err) // texts, bytes and numbers
	}
	return append(to, text...)
}

// settle serves POST /v1/settle.
func (a *API) settle(w http.ResponseWriter, r *http.Request) {
	a.close(w, r, settleNames, func(ctx context.Context, done *reservation) error {
		return a.gate.Settle(ctx, done.policy, done.made, done.used...)
	})
}

// cancel serves POST /v1/cancel.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) {
	a.close(w, r, settleNames[:2], func(ctx context.Context, done *reservation) error {
		return a.gate.Cancel(ctx, done.policy, done.made)
	})
}

// close ends a reservation. That is done also if the client has gone.
func (a *API) close(w http.ResponseWriter, r *http.Request, fields []string, end func(context.Context, *reservation) error) {
	c := a.begin(w, r)
	if c == nil {
		return
	}
	defer a.end(c)
	if !c.readSettle(fields) {
		send(w, c.scan.problem)
		return
	}
	if err := end(r.Context(), &c.reservation); err != nil {
		a.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// reset serves POST /v1/reset.
func (a *API) reset(w http.ResponseWriter, r *http.Request) {
	c := a.beginAsk(w, r, keyFields)
	if c == nil {
		return
	}
	defer a.end(c)
	if err := a.gate.Reset(r.Context(), c.one); err != nil {
		a.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
