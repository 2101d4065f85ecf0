package fiberlimit

import (
	"maps"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v3"
)

// writer is the http.ResponseWriter that the middleware writes to. Header fields go to fiber's response when the request is
// admitted or the refusal begins. The body of a refusal goes there too; the body of an admitted request is already fiber's.
type writer struct {
	c        fiber.Ctx
	before   http.Header // what fiber's response had
	header   http.Header
	admitted bool
	begun    bool // the status of a refusal has been written
}

func newWriter(c fiber.Ctx) *writer {
	w := &writer{c: c, before: http.Header{}}
	for name, value := range c.Response().Header.All() {
		w.before.Add(string(name), string(value))
	}
	w.header = maps.Clone(w.before)
	for name, values := range w.header {
		w.header[name] = slices.Clone(values)
	}
	return w
}

func (w *writer) Header() http.Header { return w.header }

// admit leaves the response to fiber's handlers, with the header fields that the middleware has set.
func (w *writer) admit() {
	w.admitted = true
	w.copyHeader()
}

// finish completes a refusal that wrote neither a status nor a body.
func (w *writer) finish() {
	if !w.admitted {
		w.begin(http.StatusOK)
	}
}

func (w *writer) WriteHeader(status int) {
	if !w.admitted && status >= 200 { // fiber sends no informational responses
		w.begin(status)
	}
}

func (w *writer) Write(p []byte) (int, error) {
	if !w.admitted {
		w.begin(http.StatusOK)
		w.c.Response().AppendBody(p)
	}
	return len(p), nil
}

func (w *writer) begin(status int) {
	if w.begun {
		return
	}
	w.begun = true
	w.copyHeader()
	w.c.Response().ResetBody() // a refusal replaces the body
	w.c.Status(status)
}

// copyHeader applies the changes of w.header to the header of fiber's response. Fiber changes the order of fields when it
// deletes one, so only fields that have changed are deleted, and they are deleted first.
func (w *writer) copyHeader() {
	to := &w.c.Response().Header
	for name, values := range w.before {
		if !slices.Equal(values, w.header[name]) {
			to.Del(name)
		}
	}
	for name, values := range w.header {
		if slices.Equal(values, w.before[name]) {
			continue
		}
		for _, value := range values {
			to.Add(name, value)
		}
	}
}
