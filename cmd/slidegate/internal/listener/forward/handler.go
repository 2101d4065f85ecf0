package forward

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/throttlelog"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Path is the path that proxies call.
const Path = "/v1/check"

// Mode is a kind of proxy: how it describes the request, and which responses it understands.
type Mode string

// The modes.
const (
	// Forwarded is for Traefik and Caddy. They describe the request in X-Forwarded-Method, -Proto, -Host, -Uri and
	// -For, overwrite what clients send under these names, and pass any response other than 2xx on to the client.
	Forwarded Mode = "forwarded"
	// Nginx is for auth_request. The request is in X-Original-Method and X-Original-URI, its host in Host and its
	// client in X-Forwarded-For, as the configuration sets them. Other headers of the client also reach us, so
	// X-Forwarded-Uri and the like are ignored. 403 is the only refusal that nginx does not treat as an error, so every
	// refusal is a 403; the header Status has the actual status.
	Nginx Mode = "nginx"
)

// Status is the header that carries the status for the client in the mode Nginx: 429, 403 for a client on a block list,
// 400 for a request that servers read in two ways, or 503.
const Status = "X-Slidegate-Status"

// Options configures a Handler. The zero value is valid.
type Options struct {
	// Mode is the mode of proxies whose query does not set one, as in ?mode=nginx. There is no header for it, because
	// clients could send it.
	Mode Mode
	// ValidToken reports whether a token is one of the service's; nil means that the service has none. A proxy with a
	// valid token may call from any address. The token is in Authorization, in X-Slidegate-Token, or in the query as
	// ?token=TOKEN, for proxies whose configuration cannot set headers.
	ValidToken func(token string) bool
	// TrustUnix treats callers on a Unix socket as if they came from 127.0.0.1.
	TrustUnix bool
	// Logger receives requests that could not be decided, and warnings about untrusted proxies, each at most once per
	// second; nil discards them. It never receives keys.
	Logger *slog.Logger
}

// Handler serves proxies. Those that the gate's file trusts may call without a token. If the file has no list of them, callers on
// the loopback interface are trusted, unless the service has tokens: then callers are expected to send one, and any program on
// the same machine that forwards requests would be a way around the tokens. It is safe for concurrent use. The zero value is not usable; call New.
type Handler struct {
	gate      *gate.Gate
	opts      Options
	responder gate.Responder

	storeLog, peerLog, requestLog *throttlelog.Logger
}

// New returns a handler for a gate.
func New(g *gate.Gate, opts Options) (*Handler, error) {
	if g == nil {
		return nil, errors.New("forward: gate: must not be nil; call gate.New")
	}
	if opts.Mode == "" {
		opts.Mode = Forwarded
	}
	if !opts.Mode.known() {
		return nil, errors.New("forward: Mode: unknown mode " + strconv.Quote(string(opts.Mode)) + `; want "forwarded" or "nginx"`)
	}
	h := &Handler{gate: g, opts: opts}
	h.storeLog, h.peerLog, h.requestLog = throttlelog.New(opts.Logger), throttlelog.New(opts.Logger), throttlelog.New(opts.Logger)
	return h, nil
}

func (m Mode) known() bool { return m == Forwarded || m == Nginx }

// ServeHTTP decides one request. It accepts any method, since some proxies use the client's.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := h.readQuery(r)
	if err != nil {
		sendProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	if !h.trusts(r.RemoteAddr) && !h.authorized(r, q.token) {
		h.peerLog.Warn("forward: request from an untrusted proxy; "+h.trustAdvice(), nil)
		sendProblem(w, http.StatusForbidden, "the caller is not a trusted proxy; "+h.trustAdvice())
		return
	}
	h.gate.AllowWait(w, 0)
	original, err := rebuild(r, q.mode)
	if err != nil {
		sendProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	if why := h.Rejection(original); why != "" {
		h.reject(w, q.mode, why)
		return
	}
	v, err := h.check(r.Context(), original, q.policy)
	h.respond(w, r, q.mode, &v, err)
}

// Rejection returns why a request of a client is rejected, whatever the policies decide, or "".
func (h *Handler) Rejection(original *http.Request) string {
	if name := h.gate.AmbiguousHeader(original); name != "" {
		return name + ": the header is sent more than once, or with an underscore in its name; send it once"
	}
	return ""
}

// check applies the policies that match the request, or the named one.
func (h *Handler) check(ctx context.Context, r *http.Request, policy string) (policy.Decision, error) {
	if policy == "" {
		return h.gate.CheckRequest(ctx, r)
	}
	return h.gate.CheckPolicy(ctx, policy, r)
}

// query holds the fields of the query.
type query struct {
	mode          Mode
	policy, token string
}

// readQuery reads the query, which is part of the proxy's configuration.
func (h *Handler) readQuery(r *http.Request) (q query, err error) {
	q.mode = h.opts.Mode
	raw := r.URL.RawQuery
	if raw == "" {
		return q, nil
	}
	fields, err := parseQuery(raw)
	if isClientQuery(r) {
		_, hasMode := fields["mode"]
		_, hasPolicy := fields["policy"]
		if hasMode || hasPolicy {
			return q, errClientQuery
		}
		return q, nil
	}
	if err != nil {
		return q, err
	}
	if mode, ok := fields["mode"]; ok {
		if q.mode = Mode(mode); !q.mode.known() {
			return q, errors.New("forward: mode: must be forwarded or nginx")
		}
	}
	policy, ok := fields["policy"]
	if ok && policy == "" {
		return q, errors.New("forward: policy: is empty; name one, or leave it out to apply all that match")
	}
	q.policy, q.token = policy, fields["token"]
	return q, nil
}

// queryNames lists the fields of the query.
var queryNames = []string{"mode", "policy", "token"}

// suggestion returns a suggestion for an unknown field.
func suggestion(name string) string {
	if near, ok := errtext.Nearest(name, queryNames); ok {
		return "; did you mean " + near + "?"
	}
	return ""
}

// statusOf returns the status for the client.
func statusOf(v *policy.Decision) int {
	switch {
	case v.Decision.Allowed:
		return http.StatusOK
	case v.Forbidden():
		return http.StatusForbidden
	case v.Decision.Flags&rule.FallbackClosed != 0:
		return http.StatusServiceUnavailable // nothing was counted: it is not the client's fault
	}
	return http.StatusTooManyRequests
}

// statusOfError returns the status for an error of the gate. A bad request is a mistake in the proxy's configuration.
func statusOfError(err error) int {
	switch {
	case errors.Is(err, gate.ErrPolicy), errors.Is(err, gate.ErrNoPolicy):
		return http.StatusBadRequest
	case errors.Is(err, store.ErrUnsupported), errors.Is(err, gate.ErrSlots):
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}
