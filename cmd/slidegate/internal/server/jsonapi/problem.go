package jsonapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/config/errtext"
	"github.com/slidegate/slidegate/store"
)

// problem is an answer that is not a decision.
type problem = problemjson.Document

// titles are what problems are called, by their status.
var titles = map[int]string{
	http.StatusBadRequest:            "The request cannot be read",
	http.StatusNotFound:              "There is no such thing",
	http.StatusMethodNotAllowed:      "The method is another",
	http.StatusRequestEntityTooLarge: "The body is too large",
	http.StatusUnsupportedMediaType:  "The body must be JSON",
	http.StatusInternalServerError:   "The policy cannot be decided by this store",
	http.StatusServiceUnavailable:    "The store could not answer",
}

var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
)

// send answers with a problem.
func send(w http.ResponseWriter, p *problem) {
	p.Title = titles[p.Status]
	p.Send(w)
}

// noSuchPath says which path was probably meant, and which there are.
func noSuchPath(path string, paths []string) *problem {
	p := &problem{Status: http.StatusNotFound, Detail: "there are " + strings.Join(paths, ", ")}
	p.Meant, _ = errtext.Nearest(path, paths)
	return p
}

// fail answers a question that the gate had no answer to.
func (a *API) fail(w http.ResponseWriter, err error) {
	status, detail := a.classify(err)
	p := &problem{Status: status, Detail: detail}
	switch {
	case errors.Is(err, gate.ErrPolicy), errors.Is(err, gate.ErrSlots), errors.Is(err, gate.ErrNoSlots):
		p.Field = "policy"
	case errors.Is(err, gate.ErrKey):
		p.Field = "key"
	case errors.Is(err, slidegate.ErrCost):
		p.Field = "cost"
	case errors.Is(err, slidegate.ErrReservation), errors.Is(err, slidegate.ErrLimit), errors.Is(err, slidegate.ErrConflict):
		p.Field = "reservation"
	}
	send(w, p)
}

// classify says which status an error of the gate has, and what clients are told.
func (a *API) classify(err error) (status int, detail string) {
	switch {
	case errors.Is(err, gate.ErrPolicy):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, slidegate.ErrCost), errors.Is(err, slidegate.ErrReservation),
		errors.Is(err, slidegate.ErrLimit), errors.Is(err, slidegate.ErrConflict):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, gate.ErrSlots), errors.Is(err, gate.ErrNoSlots), errors.Is(err, gate.ErrKey):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, slidegate.ErrUnsettled):
		return http.StatusServiceUnavailable, unsettled
	case errors.Is(err, store.ErrUnsupported):
		return http.StatusInternalServerError, err.Error()
	}
	a.log(err)
	return http.StatusServiceUnavailable, "the store could not answer, and it is not known whether anything was charged; ask again later"
}

// unsettled is what clients are told about a settlement that the store could not remember, and therefore did not carry out.
const unsettled = "the store cannot remember another settlement of this key, so it gave nothing back and charged nothing: it might do so twice; " +
	"slots were released; settle again later, or let the units come free with their window"

// log writes why the store could not answer, once a second at most: in an outage it is the same for every request.
func (a *API) log(err error) {
	if !errors.Is(err, context.Canceled) { // the client has gone away
		a.logger.Warn("jsonapi: the store could not answer", err)
	}
}

// wrong is what a scanner says of a text that it cannot read.
func (s *scanner) wrong(at int, field, format string, values ...any) bool {
	if s.problem == nil {
		line := 1 + strings.Count(s.text[:at], "\n")
		s.problem = &problem{
			Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, values...), Field: s.place(field), Offset: &at, Line: line,
		}
	}
	return false
}
