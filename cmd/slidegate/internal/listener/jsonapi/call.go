package jsonapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
)

// call is the reusable memory of one request.
type call struct {
	scanner
	body []byte
	out  []byte

	into *gate.Request // the request that is being read
	one  gate.Request
	upTo bool

	batch     bool
	requests  []gate.Request
	decisions []policy.Decision
	errs      []error

	reservation slidegate.Reservation
	charge      slidegate.ReservedCharge // the charge of it that is being read
	costs       []int64                  // what was used, in the order of the charges
}

// maxPooled bounds the memory that a call keeps for reuse. Larger requests are rare, and their memory would never be
// freed.
const maxPooled = 64 << 10

// begin reads a request into a call, which the caller must end. If that fails, it sends a problem and returns nil.
func (a *API) begin(w http.ResponseWriter, r *http.Request, read func(*call) bool) *call {
	if !isJSON(r.Header) {
		send(w, &problem{
			Status: http.StatusUnsupportedMediaType, Detail: "send it with Content-Type: application/json, in UTF-8 and without Content-Encoding",
		})
		return nil
	}
	c := a.calls.Get().(*call)
	c.into = &c.one
	if c.problem = c.read(r); c.problem == nil && read(c) {
		return c
	}
	send(w, c.problem)
	a.end(c)
	return nil
}

// end returns the call to the pool, without the keys in it.
func (a *API) end(c *call) {
	clear(c.requests)
	clear(c.decisions)
	clear(c.errs)
	*c = call{body: c.body[:0], out: c.out[:0], requests: c.requests[:0], decisions: c.decisions[:0], errs: c.errs[:0]}
	if cap(c.body) > maxPooled {
		c.body = nil
	}
	if cap(c.out) > 4*maxPooled {
		c.out = nil
	}
	a.calls.Put(c)
}

// isJSON reports whether the headers describe a body that the API accepts.
func isJSON(h http.Header) bool {
	if len(h["Content-Encoding"]) > 0 {
		return false
	}
	types := h["Content-Type"]
	switch {
	case len(types) != 1:
		return false
	case types[0] == "application/json":
		return true
	}
	kind, params, err := mime.ParseMediaType(types[0])
	charset, given := params["charset"]
	return err == nil && kind == "application/json" && (!given || strings.EqualFold(charset, "utf-8"))
}

// read reads the body. The text is copied once, and keys are substrings of the copy, so they do not change when the
// memory is reused.
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
			c.text = string(c.body)
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

// bodyProblem returns the problem for a body that could not be read to its end.
func bodyProblem(err error) *problem {
	var limited *http.MaxBytesError // the server's own bound
	if errors.As(err, &limited) {
		return tooLarge()
	}
	return &problem{Status: http.StatusBadRequest, Detail: "the body ended early or arrived too slowly"}
}
