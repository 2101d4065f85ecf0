package jsonapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
)

// call is the memory of one request, which is used again.
type call struct {
	body []byte
	out  []byte
	scan scanner

	one   gate.Ask
	upTo  bool
	batch bool
	asks  []gate.Ask

	verdicts []gate.Verdict
	errs     []error

	reservation reservation
}

// mostKept is how large the memory may be that a call keeps. What is larger is rare, and would stay for ever.
const mostKept = 64 << 10

// begin reads the body of a request into a call, which must be ended; or it answers with what is wrong, and returns nil.
func (a *API) begin(w http.ResponseWriter, r *http.Request) *call {
	if !isJSON(r.Header) {
		send(w, &problem{
			Status: http.StatusUnsupportedMediaType, Detail: "send it with Content-Type: application/json, in UTF-8 and without Content-Encoding",
		})
		return nil
	}
	c := a.calls.Get().(*call)
	if p := c.read(r); p != nil {
		a.end(c)
		send(w, p)
		return nil
	}
	return c
}

// end gives the memory back, without the keys in it.
func (a *API) end(c *call) {
	clear(c.asks)
	clear(c.verdicts)
	clear(c.errs)
	*c = call{body: c.body[:0], out: c.out[:0], asks: c.asks[:0], verdicts: c.verdicts[:0], errs: c.errs[:0]}
	if cap(c.body) > mostKept {
		c.body = nil
	}
	if cap(c.out) > 4*mostKept {
		c.out = nil
	}
	a.calls.Put(c)
}

// isJSON tells whether a body is JSON in the way that we read it.
func isJSON(h http.Header) bool {
	if len(h["Content-Encoding"]) > 0 {
		return false
	}
	said := h["Content-Type"]
	switch {
	case len(said) != 1:
		return false
	case said[0] == "application/json":
		return true
	}
	kind, params, err := mime.ParseMediaType(said[0])
	charset, told := params["charset"]
	return err == nil && kind == "application/json" && (!told || strings.EqualFold(charset, "utf-8"))
}

// read reads the body. What it read is copied once, and keys are parts of the copy: nobody who keeps one sees it change.
func (c *call) read(r *http.Request) *problem {
	if r.ContentLength > MaxBody {
		return tooLarge()
	}
	if cap(c.body) == 0 {
		c.body = make([]byte, 0, 1024)
	}
	for {
		if len(c.body) == cap(c.body) {
			c.body = append(c.body, 0)[:len(c.body)]
		}
		n, err := r.Body.Read(c.body[len(c.body):min(cap(c.body), MaxBody+1)])
		c.body = c.body[:len(c.body)+n]
		switch {
		case len(c.body) > MaxBody:
			return tooLarge()
		case errors.Is(err, io.EOF):
			c.scan.text = string(c.body)
			return nil
		case err != nil:
			return bodyProblem(err)
		}
	}
}

func tooLarge() *problem {
	return &problem{
		Status: http.StatusRequestEntityTooLarge, Detail: "the body has more than 1 MiB; send several smaller batches",
	}
}

// bodyProblem says why a body could not be read to its end.
func bodyProblem(err error) *problem {
	var limited *http.MaxBytesError // a server's own bound
	if errors.As(err, &limited) {
		return tooLarge()
	}
	return &problem{Status: http.StatusBadRequest, Detail: "the body ended too early, or came too slowly"}
}
