package httplimit

import (
	"net/http"
	"sync"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/reply"
)

// Body is the format of the body of a refusal.
type Body = reply.Body

// The bodies.
const (
	BodyProblem = reply.Problem // application/problem+json (RFC 9457) of the registered type quota-exceeded
	BodyJSON    = reply.JSON    // application/json: {"error":"rate limited","limit":"api","retry_after":18}
	BodyText    = reply.Text    // text/plain: a sentence
	BodyNone    = reply.NoBody
)

// Header values and memory, allocated once.
var (
	noStore   = []string{"no-store"}
	bodyTexts = sync.Pool{New: func() any { text := make([]byte, 0, 512); return &text }}
)

// refuse writes the response to a refused request. Retry-After is already set.
func (m *Middleware) refuse(w http.ResponseWriter, words *reply.Texts, items []*reply.Item, d *slidegate.Decision) {
	text := bodyTexts.Get().(*[]byte)
	*text = words.AppendRefusal((*text)[:0], m.opts.Body, items, d)
	send(w, words.Status(len(items), d), m.opts.Body, *text)
	bodyTexts.Put(text)
}

func send(w http.ResponseWriter, status int, body Body, text []byte) {
	h := w.Header()
	h["Cache-Control"] = noStore // RFC 6585: a 429 must not be stored by a cache
	delete(h, "Content-Length")  // of the response that the handler was about to write
	if body == BodyNone {
		w.WriteHeader(status)
		return
	}
	h["Content-Type"] = body.ContentType()
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may be gone
}

// Responder writes the decisions of a handler that calls a limiter itself, as the middleware would. The zero value is ready to
// use; keep it beside the limiter. It is safe for concurrent use, and must not be copied.
type Responder struct {
	Headers Headers
	Body    Body
	items   reply.Items // of limits that were seen before
}

// Write writes the header fields for a decision by these limits, and the whole response if it is a refusal, or if err says that
// there is no decision. It reports whether the request is admitted, so that the handler writes the response.
func (r *Responder) Write(w http.ResponseWriter, limits []slidegate.Limit, d slidegate.Decision, err error) (admitted bool) {
	if err != nil {
		d = reply.Undecided()
	}
	items := r.items.Append(nil, limits)
	r.Headers.Write(w.Header(), items, &d, !d.Allowed)
	if !d.Allowed {
		send(w, reply.Status(&d), r.Body, r.Body.AppendRefusal(nil, items, &d))
	}
	return d.Allowed
}
