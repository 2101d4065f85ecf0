// Package rulingsapi serves a book of rulings to operators, over HTTP.
package rulingsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/rulings"
)

// Options configures an API. All but Transient are required.
type Options struct {
	// Note returns why a ruling has no effect, or "" if it has one.
	Note func(*rulings.Ruling) string
	// Reach returns which keys a new ruling is about; before is the one that it has replaced, or nil.
	Reach func(ctx context.Context, r, before *rulings.Ruling) gate.Reach
	// Transient says that rulings are lost when the process ends.
	Transient bool
	// Durable reports whether changes survive the death of the process now, unless Transient.
	Durable func() bool
	// Who returns who makes a change, given what the request claims.
	Who func(r *http.Request, claimed string) string
	// Logger receives the errors of the store.
	Logger *slog.Logger
}

// API serves a book. It is safe for concurrent use. The zero value is not usable; call New.
type API struct {
	book *rulings.Book
	opts Options
}

// New returns the API of a book.
func New(book *rulings.Book, opts Options) *API { return &API{book: book, opts: opts} }

// maxBody bounds the body of a change.
const maxBody = 64 << 10

// Routes adds the paths for operators to a mux.
func (a *API) Routes(mux *http.ServeMux) {
	for path, handlers := range map[string]map[string]http.HandlerFunc{
		"/v1/rulings":       {http.MethodGet: a.list, http.MethodPost: a.add},
		"/v1/rulings/clear": {http.MethodPost: a.remove},
		"/v1/rulings/log":   {http.MethodGet: a.serveLog},
	} {
		mux.Handle(path, byMethod(path, handlers))
	}
}

// byMethod dispatches a path by method, and rejects other methods.
func byMethod(path string, handlers map[string]http.HandlerFunc) http.Handler {
	var names []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if handlers[method] != nil {
			names = append(names, method)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if serve := handlers[method]; serve != nil {
			serve(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(names, ", "))
		problemjson.Document{Status: http.StatusMethodNotAllowed, Detail: path + " only accepts " + strings.Join(names, " and ")}.Send(w)
	})
}

// Listed is a ruling in a response.
type Listed struct {
	rulings.Ruling
	Note string `json:"note,omitempty"` // why it has no effect
}

func (a *API) listed(r *rulings.Ruling) Listed { return Listed{*r, a.opts.Note(r)} }

// list serves GET /v1/rulings. Before the rulings are read, there is no list: it would say that there are none.
func (a *API) list(w http.ResponseWriter, _ *http.Request) {
	found, err := a.book.List()
	if err != nil {
		problemjson.Document{
			Status: http.StatusServiceUnavailable, Detail: "the rulings have not been read from the store yet, so none is in force in this instance",
		}.Send(w)
		return
	}
	all := []Listed{}
	for i := range found {
		all = append(all, a.listed(&found[i]))
	}
	revision, readAt := a.book.State()
	problemjson.SendJSON(w, map[string]any{"rulings": all, "read_at": readAt.UTC(), "revision": revision})
}

// Override is the kind of a request that ends a ruling of any kind but Block.
const Override rulings.Kind = "override"

// Change is the body of a change.
type Change struct {
	Policy string       `json:"policy,omitempty"`
	Key    string       `json:"key"`
	Kind   rulings.Kind `json:"kind,omitempty"`
	Limits []string     `json:"limits,omitempty"`
	Until  string       `json:"until,omitempty"`
	For    string       `json:"for,omitempty"`
	Who    string       `json:"who,omitempty"` // used only if no token names the caller
	Why    string       `json:"why,omitempty"`
}

var changeFields = []string{"policy", "key", "kind", "limits", "until", "for", "who", "why"}

// add serves POST /v1/rulings.
func (a *API) add(w http.ResponseWriter, r *http.Request) {
	c, ok := readChange(w, r)
	if !ok {
		return
	}
	ruling := c.ruling(a.opts.Who(r, c.Who))
	var err error
	if ruling.Until, err = c.end(time.Now()); err == nil {
		var before *rulings.Ruling
		if ruling, before, err = a.book.Add(r.Context(), ruling); err == nil {
			kept := a.kept()
			reach := a.reach(r.Context(), &ruling, before)
			reach.Notes = append(reach.Notes, kept.Notes...)
			problemjson.SendJSON(w, struct {
				Ruling   Listed          `json:"ruling"`
				Replaced *rulings.Ruling `json:"replaced,omitempty"`
				Flags    []string        `json:"flags,omitempty"`
				gate.Reach
			}{a.listed(&ruling), before, kept.Flags, reach})
			return
		}
	}
	a.fail(w, err)
}

// reach returns which keys a ruling is about.
func (a *API) reach(ctx context.Context, r, before *rulings.Ruling) gate.Reach {
	reach := a.opts.Reach(ctx, r, before)
	if a.opts.Transient {
		reach.Notes = append(reach.Notes, "rulings are kept in memory, so this one ends with the process; set --state DIR, or use a shared store, to keep it")
	}
	return reach
}

// Kept is what a response says about a change that a crash would forget.
type Kept struct {
	Flags []string `json:"flags,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// kept is about a change that was made just now.
func (a *API) kept() (k Kept) {
	if !a.opts.Durable() {
		k.Flags = []string{"not_durable"} // as of a decision
		k.Notes = []string{"not durable: the state folder cannot be written now, so a crash would forget this"}
	}
	return k
}

// Ended is the response to a change that ends a ruling.
type Ended struct {
	Ended *rulings.Ruling `json:"ended"`
	Kept
}

// remove serves POST /v1/rulings/clear.
func (a *API) remove(w http.ResponseWriter, r *http.Request) {
	c, ok := readChange(w, r)
	if !ok {
		return
	}
	if c.Until != "" || c.For != "" || len(c.Limits) > 0 {
		a.fail(w, &rulings.FieldError{Field: "until, for, limits", Err: errors.New("are not used to end a ruling; leave them out")})
		return
	}
	var kinds []rulings.Kind
	switch c.Kind {
	case "":
	case Override:
		kinds = []rulings.Kind{rulings.Limits, rulings.Unlimited}
	default:
		kinds = []rulings.Kind{c.Kind}
	}
	ended, err := a.book.Remove(r.Context(), c.ruling(a.opts.Who(r, c.Who)), kinds...)
	if err != nil {
		a.fail(w, err)
		return
	}
	problemjson.SendJSON(w, Ended{ended, a.kept()})
}

// defaultLog is the default number of changes returned.
const defaultLog = 100

// serveLog serves GET /v1/rulings/log?n=100.
func (a *API) serveLog(w http.ResponseWriter, r *http.Request) {
	n := defaultLog
	if text := r.URL.Query().Get("n"); text != "" {
		given, err := strconv.Atoi(text)
		if err != nil || given < 1 {
			a.fail(w, fieldError("n", "must be 1 or more"))
			return
		}
		n = given
	}
	log, err := a.book.Log(r.Context(), n)
	if err != nil {
		a.fail(w, err)
		return
	}
	if log == nil {
		log = []rulings.Ruling{}
	}
	problemjson.SendJSON(w, map[string]any{"log": log})
}

// readChange reads the body of a change, or sends a problem.
func readChange(w http.ResponseWriter, r *http.Request) (c Change, ok bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		problemjson.Document{Status: http.StatusUnsupportedMediaType, Detail: "send the body with Content-Type: application/json"}.Send(w)
		return c, false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		problemjson.Document{Status: http.StatusRequestEntityTooLarge, Detail: "the body has more than 64 KiB"}.Send(w)
		return c, false
	}
	if err == nil && !utf8.Valid(text) { // it would be decoded as another key
		err = errors.New(`it is not UTF-8; write a key with other bytes in quotes, as in "\"J\\xf6rg\""`)
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err = decoder.Decode(&c); err == nil && decoder.More() {
			err = errors.New("unexpected data after the object")
		}
	}
	if err != nil {
		invalidBody(err).Send(w)
		return c, false
	}
	if c.Key == "" {
		problemjson.Document{Status: http.StatusBadRequest, Field: "key", Detail: "is missing; give the key of the client"}.Send(w)
		return c, false
	}
	return c, true
}

// invalidBody returns the problem for an invalid body.
func invalidBody(err error) problemjson.Document {
	p := problemjson.Document{Status: http.StatusBadRequest, Detail: "invalid body: " + strings.TrimPrefix(err.Error(), "json: ")}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		p.Field, p.Detail = kind.Field, "must be a "+kind.Type.String()+", not a "+kind.Value
	}
	if _, name, unknown := strings.Cut(err.Error(), "unknown field "); unknown {
		p.Field = strings.Trim(name, `"`)
		p.Detail = "unknown field; want one of " + strings.Join(changeFields, ", ")
		p.Meant, _ = errtext.Nearest(p.Field, changeFields)
	}
	return p
}

func (c *Change) ruling(who string) rulings.Ruling {
	return rulings.Ruling{Policy: c.Policy, Key: c.Key, Kind: c.Kind, Limits: c.Limits, Who: who, Why: c.Why}
}

// end returns when the ruling is to end; zero means never.
func (c *Change) end(now time.Time) (time.Time, error) {
	switch {
	case c.Until != "" && c.For != "":
		return time.Time{}, fieldError("for", "give until or for, not both")
	case c.For != "":
		d, err := ParseFor(c.For)
		if err != nil {
			return time.Time{}, &rulings.FieldError{Field: "for", Err: err}
		}
		return now.Add(d), nil
	case c.Until != "":
		end, err := time.Parse(time.RFC3339, c.Until)
		if err != nil {
			return end, fieldError("until", "must be a time such as 2026-01-31T18:00:00Z, not %q", c.Until)
		}
		return end, nil
	}
	return time.Time{}, nil
}

func fieldError(field, format string, args ...any) error {
	return &rulings.FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}

// maxDays is a number of days that a duration can represent, and longer than a ruling may last.
const maxDays = 200 * 365

// ParseFor parses the duration of a ruling: 90s, 1h30m, 7d.
func ParseFor(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n int64
		if n, err = strconv.ParseInt(days, 10, 64); err == nil && n < maxDays { // otherwise it could overflow
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || d <= 0 {
		return 0, errors.New("must be a positive duration, such as 15m, 1h30m or 7d, not " + strconv.Quote(text))
	}
	return d, nil
}

// detailOf returns the text of an error for an operator. About a limit it is what is wrong with it, without the names of packages.
func detailOf(err error) string {
	var limit *slidegate.LimitError
	switch {
	case !errors.As(err, &limit):
		return err.Error()
	case limit.Text == "":
		return limit.Err.Error()
	}
	return fmt.Sprintf("%v (in %q)", limit.Err, limit.Text)
}

// fail sends the problem for a change that was not made.
func (a *API) fail(w http.ResponseWriter, err error) {
	p := problemjson.Document{Status: http.StatusServiceUnavailable}
	var field *rulings.FieldError
	switch {
	case errors.As(err, &field):
		p.Status, p.Field, p.Detail = http.StatusBadRequest, field.Field, detailOf(field.Err)
		if field.Field == "policy" {
			p.Status = http.StatusNotFound // as for all requests that name a policy
		}
	case errors.Is(err, rulings.ErrNone):
		p.Status, p.Field, p.Detail = http.StatusNotFound, "key", rulings.ErrNone.Error()
	case errors.Is(err, rulings.ErrFull):
		p.Status, p.Field, p.Detail = http.StatusConflict, "key", rulings.ErrFull.Error()
	default:
		p.Detail = "the store failed, and the change may or may not have been made; check which rulings are in force and try again: " + err.Error()
		a.opts.Logger.Warn("the store failed to change or return rulings; a change may or may not have been made", slog.Any("error", err))
	}
	p.Send(w)
}
