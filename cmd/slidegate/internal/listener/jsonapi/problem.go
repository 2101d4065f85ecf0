package jsonapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/store"
)

// problem is a response that is not a decision.
type problem = problemjson.Document

// titles holds the titles of problems, by status.
var titles = map[int]string{
	http.StatusBadRequest:            "The request cannot be read",
	http.StatusMisdirectedRequest:    "Another process has to do this",
	http.StatusNotFound:              "Not found",
	http.StatusMethodNotAllowed:      "Method not allowed",
	http.StatusRequestEntityTooLarge: "The body is too large",
	http.StatusUnsupportedMediaType:  "The body must be JSON",
	http.StatusInternalServerError:   "The store cannot decide this policy",
	http.StatusServiceUnavailable:    "The store could not answer",
}

var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
)

// send sends a problem.
func send(w http.ResponseWriter, p *problem) {
	p.Title = titles[p.Status]
	p.Send(w)
}

// noSuchPath returns the problem for an unknown path. It lists all known paths, and suggests the nearest one, unless the path
// is one of another listener.
func noSuchPath(path string, paths []string) *problem {
	if listener := listenerOf()[path]; listener != "" {
		return &problem{
			Status: http.StatusNotFound,
			Detail: path + " is not on this listener, but on the " + listener + "; want one of " + strings.Join(paths, ", "),
		}
	}
	p := &problem{Status: http.StatusNotFound, Detail: "unknown path; want one of " + strings.Join(paths, ", ")}
	p.Meant, _ = errtext.Nearest(path, paths)
	return p
}

// listenerOf returns the listener of each path.
var listenerOf = sync.OnceValue(func() map[string]string {
	listeners := map[string]string{}
	for tag, listener := range map[string]string{"admin": "admin listener (--admin)", "client": "listener for clients (--http)"} {
		for _, path := range pageOf(tag).paths {
			listeners[path] = listener
		}
	}
	return listeners
})

// fail sends the problem for an error of an operation.
func (a *API) fail(w http.ResponseWriter, r *http.Request, op gate.Op, err error) {
	status, detail := a.classify(r, err, op == gate.Peek)
	if op == gate.Reset && errors.Is(err, failure.ErrUnavailable) {
		detail = notReset
	}
	send(w, &problem{Status: status, Detail: detail, Field: gate.FieldOf(err)})
}

// classify returns the status of an error of the gate, and the detail for clients. Looks charge nothing.
func (a *API) classify(r *http.Request, err error, looks bool) (status int, detail string) {
	switch {
	case errors.Is(err, gate.ErrPolicy):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, failure.ErrElsewhere):
		return http.StatusMisdirectedRequest, err.Error()
	case gate.FieldOf(err) != "":
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, slidegate.ErrUnsettled):
		return http.StatusServiceUnavailable, unsettled
	case errors.Is(err, store.ErrUnsupported):
		return http.StatusInternalServerError, err.Error()
	case problemjson.HasLeft(r, err):
		return problemjson.StatusClientLeft, "the client has left"
	}
	if looks { // a page looks every second, and what decides without the store logs that
		a.debug.Debug("jsonapi: the store could not answer", slog.Any("error", err))
		return http.StatusServiceUnavailable, notSeen
	}
	a.logger.Warn("jsonapi: the store could not answer", err) // in an outage it is the same for every request
	return http.StatusServiceUnavailable, "the store could not answer, and it is not known whether anything was charged; try again later"
}

// notSeen is the detail for what charges nothing.
const notSeen = "the store does not answer, so what it has counted cannot be shown; nothing was charged; try again later"

// notReset is the detail for a reset that the store did not confirm.
const notReset = "the store does not answer: what this instance counted without it was reset, but not what the store has counted; try again later"

// unsettled is the detail for a settlement that the store did not make, because it could not have remembered it.
const unsettled = "the store cannot remember another settlement of this key, so it refunded and charged nothing, since it might do so twice; " +
	"slots were released; settle again later, or let the units expire with their window"
