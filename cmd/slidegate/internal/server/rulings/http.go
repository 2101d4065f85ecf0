package rulings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/config/errtext"
)

// maxBody bounds the body of a change.
const maxBody = 64 << 10

// Routes adds the paths for operators to a mux. Require wraps the handlers to authenticate callers; nil accepts all
// callers.
func (b *Book) Routes(mux *http.ServeMux, require func(http.Handler) http.Handler) {
	if require == nil {
		require = func(next http.Handler) http.Handler { return next }
	}
	for path, handlers := range map[string]map[string]http.HandlerFunc{
		"/v1/rulings":       {http.MethodGet: b.list, http.MethodPost: b.change},
		"/v1/rulings/clear": {http.MethodPost: b.end},
		"/v1/rulings/log":   {http.MethodGet: b.serveLog},
	} {
		mux.Handle(path, require(byMethod(path, handlers)))
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

// listedRuling is a ruling in a list.
type listedRuling struct {
	Ruling
	Note string `json:"note,omitempty"` // why it has no effect
}

func (b *Book) withNote(r *Ruling) *listedRuling {
	if r == nil {
		return nil
	}
	l := &listedRuling{Ruling: *r}
	if b.opts.Note != nil {
		l.Note = b.opts.Note(r)
	}
	return l
}

// list serves GET /v1/rulings.
func (b *Book) list(w http.ResponseWriter, _ *http.Request) {
	all := []*listedRuling{}
	for _, r := range b.Table().InForce(time.Now()) {
		all = append(all, b.withNote(&r))
	}
	body := map[string]any{"rulings": all}
	if read := b.read.Load(); read > 0 {
		body["read_at"] = time.UnixMicro(read).UTC()
	}
	sendJSON(w, body)
}

// changeRequest is the body of a change.
type changeRequest struct {
	Policy string   `json:"policy"`
	Key    string   `json:"key"`
	Kind   Kind     `json:"kind"`
	Limits []string `json:"limits"`
	Until  string   `json:"until"`
	For    string   `json:"for"`
	Who    string   `json:"who"`
	Why    string   `json:"why"`
}

var changeFields = []string{"policy", "key", "kind", "limits", "until", "for", "who", "why"}

// change serves POST /v1/rulings.
func (b *Book) change(w http.ResponseWriter, r *http.Request) {
	a, ok := readChange(w, r)
	if !ok {
		return
	}
	ruling := a.ruling()
	var err error
	if ruling.Until, err = a.end(time.Now()); err == nil {
		var before *Ruling
		if ruling, before, err = b.Change(r.Context(), ruling); err == nil {
			sendJSON(w, struct {
				Ruling   *listedRuling `json:"ruling"`
				Replaced *Ruling       `json:"replaced,omitempty"`
				*Reach
			}{b.withNote(&ruling), before, b.reach(r.Context(), &ruling)})
			return
		}
	}
	b.fail(w, err)
}

// reach returns which keys a ruling is about, or nil if that is unknown.
func (b *Book) reach(ctx context.Context, r *Ruling) *Reach {
	if b.opts.Reach == nil {
		return nil
	}
	reach := b.opts.Reach(ctx, r)
	if b.opts.Transient {
		reach.Notes = append(reach.Notes, "rulings are kept in memory, so this one ends with the process; set --state FILE, or use a shared store, to keep it")
	}
	return &reach
}

// end serves POST /v1/rulings/clear.
func (b *Book) end(w http.ResponseWriter, r *http.Request) {
	a, ok := readChange(w, r)
	if !ok {
		return
	}
	if a.Until != "" || a.For != "" || len(a.Limits) > 0 {
		b.fail(w, &FieldError{Field: "until, for, limits", Err: errors.New("are not used to end a ruling; leave them out")})
		return
	}
	ended, err := b.End(r.Context(), a.ruling(), a.Kind)
	if err != nil {
		b.fail(w, err)
		return
	}
	sendJSON(w, map[string]any{"ended": ended})
}

// defaultLog is the default number of changes returned.
const defaultLog = 100

// serveLog serves GET /v1/rulings/log?n=100.
func (b *Book) serveLog(w http.ResponseWriter, r *http.Request) {
	n := defaultLog
	if text := r.URL.Query().Get("n"); text != "" {
		given, err := strconv.Atoi(text)
		if err != nil || given < 1 || given > MaxLog {
			b.fail(w, fieldError("n", "must be 1 to %d", MaxLog))
			return
		}
		n = given
	}
	log, err := b.Log(r.Context(), n)
	if err != nil {
		b.fail(w, err)
		return
	}
	if log == nil {
		log = []Ruling{}
	}
	sendJSON(w, map[string]any{"log": log})
}

// readChange reads the body of a change, or sends a problem.
func readChange(w http.ResponseWriter, r *http.Request) (a changeRequest, ok bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		problemjson.Document{Status: http.StatusUnsupportedMediaType, Detail: "send the body with Content-Type: application/json"}.Send(w)
		return a, false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		problemjson.Document{Status: http.StatusRequestEntityTooLarge, Detail: "the body has more than 64 KiB"}.Send(w)
		return a, false
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err = decoder.Decode(&a); err == nil && decoder.More() {
			err = errors.New("unexpected data after the object")
		}
	}
	if err != nil {
		invalidBody(err).Send(w)
		return a, false
	}
	return a, true
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

func (a *changeRequest) ruling() Ruling {
	return Ruling{Policy: a.Policy, Key: a.Key, Kind: a.Kind, Limits: a.Limits, Who: a.Who, Why: a.Why}
}

// end returns when the ruling is to end; zero means never.
func (a *changeRequest) end(now time.Time) (time.Time, error) {
	switch {
	case a.Until != "" && a.For != "":
		return time.Time{}, fieldError("for", "give until or for, not both")
	case a.For != "":
		d, err := ParseFor(a.For)
		if err != nil {
			return time.Time{}, &FieldError{Field: "for", Err: err}
		}
		return now.Add(d), nil
	case a.Until != "":
		end, err := time.Parse(time.RFC3339, a.Until)
		if err != nil {
			return end, fieldError("until", "must be a time such as 2026-01-31T18:00:00Z, not %q", a.Until)
		}
		return end, nil
	}
	return time.Time{}, nil
}

// ParseFor parses the duration of a ruling: 90s, 1h30m, 7d.
func ParseFor(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n int64
		if n, err = strconv.ParseInt(days, 10, 64); err == nil && n < int64(2*maxFor/(24*time.Hour)) { // otherwise it could overflow
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || d <= 0 {
		return 0, errors.New("must be a positive duration, such as 15m, 1h30m or 7d, not " + strconv.Quote(text))
	}
	return d, nil
}

// fail sends the problem for a change that was not made.
func (b *Book) fail(w http.ResponseWriter, err error) {
	p := problemjson.Document{Status: http.StatusServiceUnavailable}
	var field *FieldError
	switch {
	case errors.As(err, &field):
		p.Status, p.Field, p.Detail = http.StatusBadRequest, field.Field, field.Err.Error()
		if field.Field == "policy" {
			p.Status = http.StatusNotFound // as for all requests that name a policy
		}
	case errors.Is(err, ErrNone):
		p.Status, p.Field, p.Detail = http.StatusNotFound, "key", ErrNone.Error()
	case errors.Is(err, ErrFull):
		p.Status, p.Field, p.Detail = http.StatusConflict, "key", ErrFull.Error()
	default:
		p.Detail = "the store failed, and the change may or may not have been made; check which rulings are in force and try again: " + err.Error()
		b.opts.Logger.Warn("the store failed to change or return rulings; a change may or may not have been made", slog.Any("error", err))
	}
	p.Send(w)
}

func sendJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}
