package jsonapi

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/throttlelog"
)

// MaxBody is how long the body of a request may be, in bytes, and MaxBatch how many asks it may hold.
const (
	MaxBody  = 1 << 20
	MaxBatch = 1000
)

// Options are what an API has besides its gate. The zero value is good.
type Options struct {
	// Logger gets why the store could not answer, once a second at most; nil means nobody does. Keys are never in it, and
	// clients are not told, for the reason may name machines.
	Logger *slog.Logger
	// Envoy answers about policies whose names begin with rulings.EnvoyPrefix: the keys are then descriptors of Envoy. nil leaves them
	// to the gate, which has no policy of such a name.
	Envoy Inspector
}

// Inspector answers about single keys, as a gate.Gate does.
type Inspector interface {
	Peek(context.Context, gate.Ask) (gate.Verdict, error)
	Explain(context.Context, gate.Ask) (gate.Explanation, error)
	Reset(context.Context, gate.Ask) error
}

// API answers questions to a gate in JSON. It is safe for concurrent use. The zero value is not usable; New makes it.
type API struct {
	gate    *gate.Gate
	envoy   Inspector // nil if there is none
	logger  *throttlelog.Logger
	answers gate.Answers
	calls   sync.Pool // of *call
}

// New returns the API of a gate.
func New(g *gate.Gate, opts Options) (*API, error) {
	if g == nil {
		return nil, errors.New("jsonapi: gate: must not be nil; gate.New makes one")
	}
	a := &API{gate: g, envoy: opts.Envoy, logger: throttlelog.New(opts.Logger)}
	a.calls.New = func() any { return new(call) }
	return a, nil
}

// inspector returns who answers about the keys of a policy.
func (a *API) inspector(policy string) Inspector {
	if a.envoy != nil && strings.HasPrefix(policy, rulings.EnvoyPrefix) {
		return a.envoy
	}
	return a.gate
}

// route is what one path does.
type route struct {
	method string
	serve  func(*API, http.ResponseWriter, *http.Request)
}

// public are the paths for clients, admin those for whoever runs the service: they show and change what others use.
var (
	public = map[string]route{
		"/v1/allow":   {http.MethodPost, (*API).allow},
		"/v1/peek":    {http.MethodPost, (*API).peek},
		"/v1/reserve": {http.MethodPost, (*API).reserve},
		"/v1/acquire": {http.MethodPost, (*API).acquire},
		"/v1/renew":   {http.MethodPost, (*API).renew},
		"/v1/release": {http.MethodPost, (*API).release},
		"/v1/settle":  {http.MethodPost, (*API).settle},
		"/v1/cancel":  {http.MethodPost, (*API).cancel},
		"/v1/charge":  {http.MethodPost, (*API).charge},
		"/v1/refund":  {http.MethodPost, (*API).refund},
	}
	admin = map[string]route{
		"/v1/peek":    {http.MethodPost, (*API).peek}, // a proxy has no listener for clients who ask
		"/v1/reset":   {http.MethodPost, (*API).reset},
		"/v1/explain": {http.MethodGet, (*API).explain},
	}
)

// documentPath is where every listener has its own OpenAPI document.
const documentPath = "/v1/openapi.json"

// Handler serves clients. More are the tags of paths in the document that the listener has besides those for clients, such as envoy.
func (a *API) Handler(more ...string) http.Handler {
	return a.handler(public, pageOf(append(more, "client")...))
}

// AdminHandler serves whoever runs the service. It is for another listener than Handler, or behind a token: everybody who
// reaches it can reset any key, and sees entries of the file that are keys.
func (a *API) AdminHandler() http.Handler { return a.handler(admin, pageOf("admin")) }

func (a *API) handler(some map[string]route, document *page) http.Handler {
	routes := maps.Clone(some)
	routes[documentPath] = route{http.MethodGet, document.serve}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := routes[r.URL.Path]
		switch {
		case !ok:
			send(w, noSuchPath(r.URL.Path, document.paths))
		case r.Method != at.method && (at.method != http.MethodGet || r.Method != http.MethodHead):
			w.Header().Set("Allow", at.allow())
			send(w, &problem{Status: http.StatusMethodNotAllowed, Detail: r.URL.Path + " takes " + at.allow() + " alone"})
		default:
			at.serve(a, w, r)
		}
	})
}

// allow is the value of the header Allow.
func (r route) allow() string {
	if r.method == http.MethodGet {
		return "GET, HEAD"
	}
	return r.method
}
