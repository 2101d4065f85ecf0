package forward

import (
	"net/http"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/httplimit"
)

// answer tells the proxy, and through it the client, what the gate said. Only 2xx lets a request pass. Traefik and Caddy show
// the body to the client.
func (h *Handler) answer(w http.ResponseWriter, mode Mode, v *gate.Verdict, err error) {
	status := statusOf(v)
	if err != nil {
		status = statusOfError(err)
		v = &gate.Verdict{Decision: httplimit.Undecided()} // which says nothing in headers
	}
	h.answers.WriteHeader(w.Header(), v)
	var body []byte
	switch status {
	case http.StatusOK:
		w.WriteHeader(status)
		return
	case http.StatusTooManyRequests:
		body = h.answers.Refusal(v)
	case http.StatusForbidden:
		body = problemjson.Denied.Text()
	case http.StatusServiceUnavailable:
		body = h.answers.Refusal(v)
		h.storeLog.Warn("forward: the store could not answer", err)
	default:
		body = problemjson.Document{Status: status, Detail: err.Error()}.Text()
	}
	if mode == Nginx && status != http.StatusBadRequest {
		w.Header()[Status] = []string{strconv.Itoa(status)}
		status = http.StatusForbidden
	}
	problemjson.Send(w, status, body)
}

// sendProblem answers a request that is not a valid question. To a proxy this is neither an admission nor a refusal, so that
// it is noticed.
func sendProblem(w http.ResponseWriter, status int, detail string) {
	problemjson.Document{Status: status, Detail: detail}.Send(w)
}
