// Package jsonapi serves the gate to clients as JSON over HTTP, under /v1. Responses contain the whole decision, in the
// body and in the RateLimit headers. Requests are read strictly: an unknown field, a number that is not an integer or a
// key that is not text is an error that says where it is and what to write instead. The OpenAPI 3.1 document served at
// /v1/openapi.json describes every request and response.
package jsonapi

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"sync"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/throttlelog"
	"github.com/slidegate/slidegate/rulings"
)

// MaxBody is the maximum size of a body in bytes, and MaxBatch the maximum number of requests in a batch.
const (
	MaxBody  = 1 << 20
	MaxBatch = 1000
)

// Options configures an API. The zero value is valid.
type Options struct {
	// Logger receives the errors of the store, at most one per second; nil discards them. They contain no keys. Clients
	// do not get them, since they may name machines.
	Logger *slog.Logger
	// Reject returns why the listener for requests rejects one before the policies see it, or ""; nil rejects nothing.
	Reject func(*http.Request) string
	// Log returns the changes of rulings, the newest first, for /v1/state; nil means that there are none.
	Log func(context.Context) ([]rulings.Ruling, error)
	// OnChange is called after /v1/reset and /v1/refund have been carried out, with the name of the operation; nil means that nothing is
	// called. It must copy the key to keep it.
	OnChange func(ctx context.Context, operation string, req gate.Request)
}

// API serves a gate as JSON. It is safe for concurrent use. The zero value is not usable; call New.
type API struct {
	gate      *gate.Gate
	reject    func(*http.Request) string
	log       func(context.Context) ([]rulings.Ruling, error)
	onChange  func(ctx context.Context, operation string, req gate.Request)
	logger    *throttlelog.Logger
	debug     *slog.Logger
	responder gate.Responder
	calls     sync.Pool // of *call
}

// New returns the API of a gate.
func New(g *gate.Gate, opts Options) (*API, error) {
	if g == nil {
		return nil, errors.New("jsonapi: gate: must not be nil; call gate.New")
	}
	a := &API{gate: g, reject: opts.Reject, log: opts.Log, onChange: opts.OnChange, logger: throttlelog.New(opts.Logger)}
	if a.debug = opts.Logger; a.debug == nil {
		a.debug = slog.New(slog.DiscardHandler)
	}
	if a.reject == nil {
		a.reject = func(*http.Request) string { return "" }
	}
	if a.log == nil {
		a.log = func(context.Context) ([]rulings.Ruling, error) { return nil, nil }
	}
	if a.onChange == nil {
		a.onChange = func(context.Context, string, gate.Request) {}
	}
	a.calls.New = func() any { return new(call) }
	return a, nil
}

// route is the method and handler of one path.
type route struct {
	method string
	serve  func(*API, http.ResponseWriter, *http.Request)
}

// public holds the paths for clients, admin the paths for operators, which show and change the use of any client.
var (
	public = map[string]route{
		"/v1/allow":   {http.MethodPost, allow.serve},
		"/v1/peek":    {http.MethodPost, peek.serve},
		"/v1/reserve": {http.MethodPost, reserve.serve},
		"/v1/acquire": {http.MethodPost, acquire.serve},
		"/v1/renew":   {http.MethodPost, renew.serve},
		"/v1/release": {http.MethodPost, release.serve},
		"/v1/settle":  {http.MethodPost, settle.serve},
		"/v1/cancel":  {http.MethodPost, cancel.serve},
		"/v1/charge":  {http.MethodPost, charge.serve},
		"/v1/refund":  {http.MethodPost, refund.serve},
	}
	admin = map[string]route{
		"/v1/peek":    {http.MethodPost, peek.serve}, // a proxy has no listener for API clients
		"/v1/reset":   {http.MethodPost, reset.serve},
		"/v1/explain": {http.MethodGet, (*API).explain},
		"/v1/state":   {http.MethodGet, (*API).state},

		"/v1/explain/request": {http.MethodPost, (*API).explainRequest},
	}
)

// documentPath is where every listener serves its own OpenAPI document.
const documentPath = "/v1/openapi.json"

// Handler serves clients. The argument more lists the tags of further paths in the document that the listener serves,
// such as envoy.
func (a *API) Handler(more ...string) http.Handler {
	return a.handler(public, pageOf(append(more, "client")...))
}

// AdminHandler serves operators. Serve it on a different listener than Handler, or behind a token: any caller can reset
// any key, and sees entries of the file that are keys.
func (a *API) AdminHandler() http.Handler { return a.handler(admin, pageOf("admin")) }

func (a *API) handler(some map[string]route, document *page) http.Handler {
	routes := maps.Clone(some)
	routes[documentPath] = route{http.MethodGet, document.serve}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := routes[r.URL.Path]
		allow := document.allow[r.URL.Path] // others serve some of the paths, and leave requests with other methods to this handler
		switch {
		case ok && (r.Method == at.method || at.method == http.MethodGet && r.Method == http.MethodHead):
			at.serve(a, w, r)
		case allow != "":
			w.Header().Set("Allow", allow)
			send(w, &problem{Status: http.StatusMethodNotAllowed, Detail: r.URL.Path + " only accepts " + allow})
		default:
			send(w, noSuchPath(r.URL.Path, document.paths))
		}
	})
}
