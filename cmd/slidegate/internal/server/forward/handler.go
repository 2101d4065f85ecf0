package forward

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/throttlelog"
	"github.com/slidegate/slidegate/config/errtext"
	"github.com/slidegate/slidegate/store"
)

// Path is where the service has proxies ask.
const Path = "/v1/check"

// Mode is which proxy asks: what it says about the request, and which answers it understands.
type Mode string

// The modes.
const (
	// Forwarded is for Traefik and Caddy. They say by X-Forwarded-Method, -Proto, -Host, -Uri and -For which request they
	// ask about, overwrite what clients send under these names, and pass any answer but a 2xx on to the client.
	Forwarded Mode = "forwarded"
	// Nginx is for auth_request. The request is X-Original-Method and X-Original-URI, its host is Host, its client
	// X-Forwarded-For, as the configuration sets them; what else a client sends reaches us too, so X-Forwarded-Uri and the
	// like are not looked at. A 403 is the only refusal that does not become an error, so every refusal is one; Status tells
	// the true status.
	Nginx Mode = "nginx"
)

// Status is the header in which Nginx tells the status that the client is to get: 429, 403 for a client on a deny list, or
// 503.
const Status = "X-Slidegate-Status"

// Options are what a Handler has besides its gate. The zero value believes proxies on the same machine, of the Forwarded
// kind.
type Options struct {
	// Mode is who asks, unless the query says so: ?mode=nginx. There is no header for it, because clients could send it.
	Mode Mode
	// Trusted are the proxies that may ask without a token. See Handler.Trust.
	Trusted []netip.Prefix
	// ValidToken reports whether a token is one of the service's; nil means that the service has none. A proxy that shows one
	// may ask from any address: in Authorization, in X-Slidegate-Token, or in the query as ?token=TOKEN, for proxies whose
	// configuration sets no headers.
	ValidToken func(token string) bool
	// TrustUnix treats those who connect over a Unix socket as if they came from 127.0.0.1.
	TrustUnix bool
	// Logger gets why a question could not be answered, and warnings of requests from untrusted proxies, once a second at most;
	// nil means nobody does. Keys are never in it.
	Logger *slog.Logger
}

// Handler answers proxies. It is safe for concurrent use. The zero value is not usable; New makes it.
type Handler struct {
	gate    *gate.Gate
	opts    Options
	trusted atomic.Pointer[[]netip.Prefix] // to nil if nobody was named
	answers gate.Answers

	storeLog, peerLog, questionLog *throttlelog.Logger
}

// New returns a handler that asks a gate.
func New(g *gate.Gate, opts Options) (*Handler, error) {
	if g == nil {
		return nil, errors.New("forward: gate: must not be nil; gate.New makes one")
	}
	if opts.Mode == "" {
		opts.Mode = Forwarded
	}
	if !opts.Mode.known() {
		return nil, errors.New("forward: Mode: " + string(opts.Mode) + " is none; there are forwarded and nginx")
	}
	h := &Handler{gate: g, opts: opts}
	h.storeLog, h.peerLog, h.questionLog = throttlelog.New(opts.Logger), throttlelog.New(opts.Logger), throttlelog.New(opts.Logger)
	h.Trust(opts.Trusted)
	return h, nil
}

// Trust sets which proxies may ask without a token from now on. The service calls it with the trusted proxies of a file that it
// has reloaded. With nil, which is a file that does not say, those on the loopback interface may, unless the service has tokens: then
// it is meant to be reached by those who have one, and whatever passes requests on to it from the same machine would be a way
// around them.
func (h *Handler) Trust(proxies []netip.Prefix) {
	proxies = slices.Clone(proxies) // nil stays nil
	h.trusted.Store(&proxies)
}

// Trusted returns the proxies that Trust was last called with. They must not be changed.
func (h *Handler) Trusted() []netip.Prefix { return *h.trusted.Load() }

func (m Mode) known() bool { return m == Forwarded || m == Nginx }

// ServeHTTP answers one question, whatever method it is asked with: some proxies pass on the client's.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := h.question(r)
	if err != nil {
		sendProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	if !h.trusts(r.RemoteAddr) && !h.authorized(r, q.token) {
		h.peerLog.Warn("forward: request from an untrusted proxy; "+h.howToTrust(), nil)
		sendProblem(w, http.StatusForbidden, "the caller is not a trusted proxy; "+h.howToTrust())
		return
	}
	asked, err := rebuild(r, q.mode)
	if err != nil {
		sendProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	v, err := h.check(r.Context(), asked, q.policy)
	h.answer(w, q.mode, &v, err)
}

// check asks the policies that the request matches, or the one that is named.
func (h *Handler) check(ctx context.Context, r *http.Request, policy string) (gate.Verdict, error) {
	if policy == "" {
		return h.gate.CheckRequest(ctx, r)
	}
	return h.gate.CheckPolicy(ctx, policy, r)
}

// question is what the query says.
type question struct {
	mode          Mode
	policy, token string
}

// question reads the query of whoever asks, which is part of the proxy's configuration.
func (h *Handler) question(r *http.Request) (q question, err error) {
	q.mode = h.opts.Mode
	raw := r.URL.RawQuery
	if raw == "" {
		return q, nil
	}
	fields, err := parseQuery(raw)
	if passedOn(r) {
		_, saysMode := fields["mode"]
		_, saysPolicy := fields["policy"]
		if saysMode || saysPolicy {
			return q, errPassedOn
		}
		return q, nil
	}
	if err != nil {
		return q, err
	}
	if said, ok := fields["mode"]; ok {
		if q.mode = Mode(said); !q.mode.known() {
			return q, errors.New("forward: mode: must be forwarded or nginx")
		}
	}
	policy, ok := fields["policy"]
	if ok && policy == "" {
		return q, errors.New("forward: policy: is empty; name one, or leave it out to ask all that match")
	}
	q.policy, q.token = policy, fields["token"]
	return q, nil
}

// queryNames are the fields of the query.
var queryNames = []string{"mode", "policy", "token"}

// nearest is for errors about a field that there is not.
func nearest(name string) string {
	if near, ok := errtext.Nearest(name, queryNames); ok {
		return "; did you mean " + near + "?"
	}
	return ""
}

// statusOf is the status that the client is to get.
func statusOf(v *gate.Verdict) int {
	switch {
	case v.Decision.Allowed:
		return http.StatusOK
	case v.Forbidden():
		return http.StatusForbidden
	case v.Decision.Flags.FallbackClosed():
		return http.StatusServiceUnavailable // nobody counted: it is not the client's fault
	}
	return http.StatusTooManyRequests
}

// statusOfError is the status of a question that the gate had no answer to. Wrong questions are a proxy's configuration.
func statusOfError(err error) int {
	switch {
	case errors.Is(err, gate.ErrPolicy):
		return http.StatusBadRequest
	case errors.Is(err, store.ErrUnsupported), errors.Is(err, gate.ErrSlots):
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}
