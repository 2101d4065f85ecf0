package jsonapi

import (
	"net/http"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
)

// notChecked is what an ask of a batch is told that was refused because the store could not answer.
const notChecked = "the store could not answer, and the failure mode closed refuses; ask again later"

// isClosed reports whether nobody counted: the store could not answer, and the failure mode closed refused. That is not the client's
// fault, and must not look like a quota that was used up.
func isClosed(v *gate.Verdict) bool { return v.Decision.Flags.FallbackClosed() && !v.Shadow }

// refuseClosed answers 503 if the failure mode closed refused, as forward-auth and the proxy do, and reports whether it did.
func (a *API) refuseClosed(w http.ResponseWriter, v *gate.Verdict) bool {
	if !isClosed(v) {
		return false
	}
	a.answers.WriteHeader(w.Header(), v)
	problemjson.Send(w, http.StatusServiceUnavailable, a.answers.Refusal(v, nil))
	return true
}
