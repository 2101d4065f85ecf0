package jsonapi

import (
	"context"
	"net/http"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
)

// stateTimeout is how long the store may take: no failure mode decides instead.
const stateTimeout = 5 * time.Second

// state serves GET /v1/state.
func (a *API) state(w http.ResponseWriter, r *http.Request) {
	req, p := queryRequest(r.URL.RawQuery)
	if p != nil {
		send(w, p)
		return
	}
	// Also if the client leaves: to cancel a call costs some stores a connection, and a page asks again and again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), stateTimeout)
	defer cancel()
	log, err := a.log(ctx)
	if err != nil {
		a.fail(w, r, gate.Peek, err)
		return
	}
	k, err := a.gate.State(ctx, req, log)
	if err != nil {
		a.fail(w, r, gate.Peek, err)
		return
	}
	problemjson.SendJSON(w, k)
}
