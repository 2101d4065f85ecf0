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
		body = h.answers.Refusal(v, h.gate.Words(v.Policy))
	case http.StatusForbidden:
		body = gate.Forbidden(v).Text()
	case http.StatusServiceUnavailable:
		body = h.answers.Refusal(v, nil)
		h.storeLog.Warn("forward: the store could not answer", err)
	default: // what there is instead is for the log: Traefik and Caddy show this answer to the client
		h.questionLog.Warn("forward: the question cannot be answered", err)
		body = problemjson.Document{Status: status, Detail: detailOf(status)}.Text()
	}
	if mode == Nginx && status != http.StatusBadRequest {
		w.Header()[Status] = []string{strconv.Itoa(status)}
		status = http.StatusForbidden
	}
	problemjson.Send(w, status, body)
}

// detailOf is what is told about a question that the gate cannot answer.
func detailOf(status int) string {
	if status == http.StatusBadRequest {
		return "the policy that the proxy asks for does not exist; the log of the service lists those that do"
	}
	return "the policy cannot be decided here; the log of the service says why"
}

// sendProblem answers a request that is not a valid question. To a proxy this is neither an admission nor a refusal, so that
// it is noticed.
func sendProblem(w http.ResponseWriter, status int, detail string) {
	problemjson.Document{Status: status, Detail: detail}.Send(w)
}
