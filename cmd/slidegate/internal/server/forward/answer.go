package forward

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/tell"
)

// The types of problem documents, as registered with IANA.
const (
	problemQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	problemCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

var noStore = []string{"no-store"}

// answer tells the proxy, and through it the client, what the gate said. Only 2xx lets a request pass.
func (h *Handler) answer(w http.ResponseWriter, mode Mode, v *gate.Verdict, err error) {
	status := statusOf(v)
	if err != nil {
		status = statusOfError(err)
	} else {
		h.headers.Write(w.Header(), v)
	}
	body := problem{Type: "about:blank", Status: status}
	switch status {
	case http.StatusOK:
		w.WriteHeader(status)
		return
	case http.StatusTooManyRequests:
		body.Type, body.Title, body.Detail = problemQuota, "Too many requests", sentence(tell.Wait(&v.Decision))
		if v.Decision.LimitName != "" {
			body.Violated = []string{v.Decision.LimitName}
		}
	case http.StatusForbidden:
		body.Title, body.Detail = "Forbidden", "The client is on a deny list."
	case http.StatusServiceUnavailable:
		body.Type, body.Title, body.Detail = problemCapacity, "Service unavailable", "The rate limit could not be checked."
		h.log(0, "forward: the store could not answer", err)
	default:
		body.Title, body.Detail = http.StatusText(status), err.Error()
	}
	if mode == Nginx && status != http.StatusBadRequest {
		w.Header()[Status] = []string{strconv.Itoa(status)}
		status = http.StatusForbidden
	}
	body.send(w, status)
}

func sentence(wait int64) string {
	switch {
	case wait < 0:
		return "The request is larger than the quota, and will never be admitted."
	case wait == 1:
		return "The quota is used up. Try again in 1 second."
	}
	return fmt.Sprintf("The quota is used up. Try again in %d seconds.", wait)
}

// problem is the body of an answer that lets nobody pass (RFC 9457). Traefik and Caddy show it to the client.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

func (p problem) send(w http.ResponseWriter, status int) {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts and numbers alone
	}
	header := w.Header()
	header["Cache-Control"] = noStore // RFC 6585: a 429 must not be stored by a cache
	header["Content-Type"] = []string{"application/problem+json"}
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a proxy that has gone away is not worth an error
}

// sendProblem answers whoever asked wrongly. To a proxy this is neither an admission nor a refusal, so that it is noticed.
func sendProblem(w http.ResponseWriter, status int, detail string) {
	problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}.send(w, status)
}
