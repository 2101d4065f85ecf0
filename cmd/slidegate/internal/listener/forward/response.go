package forward

import (
	"net/http"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/policy"
)

// respond sends the gate's decision to the proxy. Only 2xx admits a request. Traefik and Caddy pass the body on to the
// client.
func (h *Handler) respond(w http.ResponseWriter, r *http.Request, mode Mode, v *policy.Decision, err error) {
	if problemjson.HasLeft(r, err) {
		w.WriteHeader(problemjson.StatusClientLeft)
		return
	}
	status := statusOf(v)
	if err != nil {
		status = statusOfError(err)
		v = &policy.Decision{Decision: reply.Undecided()} // adds no headers
	}
	h.responder.WriteHeader(w.Header(), v)
	var body []byte
	switch status {
	case http.StatusOK:
		w.WriteHeader(status)
		return
	case http.StatusTooManyRequests:
		words := h.gate.RefusalTexts(v.Policy)
		status, body = h.responder.Status(v, words), h.responder.Refusal(v, words)
	case http.StatusForbidden:
		body = gate.Forbidden(v).Text()
	case http.StatusServiceUnavailable:
		body = h.responder.Refusal(v, nil)
		h.storeLog.Warn("forward: the store could not answer", err)
	default: // the reason only goes to the log, since Traefik and Caddy pass this response on to the client
		h.requestLog.Warn("forward: the request cannot be decided", err)
		body = problemjson.Document{Status: status, Detail: detailOf(status)}.Text()
	}
	if mode == Nginx && status != http.StatusBadRequest {
		status = forNginx(w, status)
	}
	problemjson.Send(w, status, body)
}

// reject responds to a request of a client that servers read in two ways. Unlike a mistake of the proxy, it is a refusal.
func (h *Handler) reject(w http.ResponseWriter, mode Mode, detail string) {
	status := http.StatusBadRequest
	body := problemjson.Document{Status: status, Detail: detail}.Text()
	if mode == Nginx {
		status = forNginx(w, status)
	}
	problemjson.Send(w, status, body)
}

// forNginx puts the status for the client into a header, and returns the one that nginx takes as a refusal.
func forNginx(w http.ResponseWriter, status int) int {
	w.Header()[Status] = []string{strconv.Itoa(status)}
	return http.StatusForbidden
}

// detailOf returns the detail for a request that the gate cannot decide.
func detailOf(status int) string {
	if status == http.StatusBadRequest {
		return "unknown policy; the log of the service lists the known ones"
	}
	return "the policy cannot be decided; the log of the service says why"
}

// sendProblem responds to an invalid request of a proxy. To the proxy this is neither an admission nor a refusal, so
// that the mistake is noticed.
func sendProblem(w http.ResponseWriter, status int, detail string) {
	problemjson.Document{Status: status, Detail: detail}.Send(w)
}
