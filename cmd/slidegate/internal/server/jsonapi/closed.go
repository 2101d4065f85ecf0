package jsonapi

import (
	"net/http"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
)

// notChecked is the error in a batch for a request that was denied because the store did not answer.
const notChecked = "the store could not answer, and the failure mode is closed; try again later"

// isClosed reports whether nothing was counted: the store did not answer, and the failure mode closed denied. That is
// not the client's fault, and must not look like an exhausted quota.
func isClosed(v *gate.Verdict) bool { return v.Decision.Flags.FallbackClosed() && !v.Shadow }

// refuseClosed sends 503 if the failure mode closed denied, as forward-auth and the proxy do, and reports whether it
// did.
func (a *API) refuseClosed(w http.ResponseWriter, v *gate.Verdict) bool {
	if !isClosed(v) {
		return false
	}
	a.responder.WriteHeader(w.Header(), v)
	problemjson.Send(w, http.StatusServiceUnavailable, a.responder.Refusal(v, nil))
	return true
}
