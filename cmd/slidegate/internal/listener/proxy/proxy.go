package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/throttlelog"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/options"
)

// Options configures a Proxy. To is required; the other fields may be zero.
type Options struct {
	// To is the URL of the application: http or https, and a host. It has no path, because a path would not confine clients: a
	// client's /../ is forwarded unchanged.
	To *url.URL
	// RewriteHost sends the host of To instead of the host that the client requested.
	RewriteHost bool
	// AllowAmbiguous forwards requests that servers read in different ways, instead of rejecting them with 400: targets that begin
	// with // or contain a #, methods in small letters, and more than one line of a header that a policy uses. A policy then applies
	// if any reading that is known matches it. It also forwards headers whose names have other characters than letters, digits and
	// hyphens, unless they are spellings of a header that a policy uses.
	AllowAmbiguous bool
	// Headers selects the headers that report what is left; the zero value is RateLimit and RateLimit-Policy. If the application
	// sends such headers itself, they are kept and none are added.
	Headers httplimit.Headers
	// Timeout is how long the application may take to begin its response once it has the request; 0 means a minute. The response
	// itself may take any time.
	Timeout time.Duration
	// Idle is how long a client may keep the proxy waiting, to send the next part of a request or to accept the next part of a
	// response. 0 means a minute. It does not run while the proxy waits for the application.
	Idle time.Duration
	// WebsocketIdle is how long a websocket may be idle in both directions before it is closed; 0 means 10 minutes.
	WebsocketIdle time.Duration
	// Transport replaces the transport that the fields above configure; nil means that one.
	Transport http.RoundTripper
	// Logger receives at most one line per second when the application or the store fails; nil disables logging.
	Logger *slog.Logger
}

// Proxy is an http.Handler that forwards requests if the gate admits them. It is safe for concurrent use. The zero value is not
// usable; call New. See NewServer for a server that slow clients cannot tie up.
//
// A policy applies to a request if any reading of its path matches; see match.Matcher. The application receives the path
// unchanged.
//
// A unit is taken when a request is admitted, and is never refunded, even if the application cannot be reached. Otherwise clients
// would send the most requests to an application that is down. A slot of an in-flight limit is held, and renewed, until the request
// has ended.
type Proxy struct {
	gate         *gate.Gate
	opts         Options
	log          *slog.Logger
	failures     *throttlelog.Logger // for messages that every request of an outage repeats
	pass         *httputil.ReverseProxy
	transport    *http.Transport // nil if Options.Transport is set
	responder    gate.Responder
	logSlotError func(error) // logs that a slot could not be renewed or released; the request continues
}

// New returns a proxy whose requests the gate decides.
func New(g *gate.Gate, opts Options) (*Proxy, error) {
	if g == nil {
		return nil, errors.New("proxy: gate: must not be nil; call gate.New")
	}
	opts, err := opts.validate()
	if err != nil {
		return nil, err
	}
	p := &Proxy{gate: g, opts: opts, log: opts.Logger, failures: throttlelog.New(opts.Logger)}
	p.responder.Dialect = opts.Headers
	p.logSlotError = func(err error) {
		p.failures.Warn("proxy: a slot of an in-flight limit could not be renewed or released", err)
	}
	transport := opts.Transport
	if transport == nil {
		p.transport = newTransport(&opts)
		transport = p.transport
	}
	p.pass = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: addLimitHeader,
		ErrorHandler:   p.forwardFailed,
		Transport:      transport,
		BufferPool:     &buffers{},
		ErrorLog:       slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	return p, nil
}

func (o Options) validate() (Options, error) {
	switch {
	case o.To == nil:
		return o, invalid("To", "is missing; write the URL of the application, such as http://localhost:3000")
	case o.To.Scheme != "http" && o.To.Scheme != "https":
		return o, invalid("To", "must begin with http:// or https://, not %q", o.To.Scheme)
	case o.To.Hostname() == "":
		return o, invalid("To", "has no host; write one, such as http://localhost:3000")
	case o.To.User != nil || o.To.Path != "" && o.To.Path != "/" || o.To.RawQuery != "" || o.To.Fragment != "":
		return o, invalid("To", "must be only a scheme and a host; write %s://%s", o.To.Scheme, o.To.Host)
	}
	o.Timeout, o.Idle, o.WebsocketIdle = cmp.Or(o.Timeout, time.Minute), cmp.Or(o.Idle, time.Minute), cmp.Or(o.WebsocketIdle, 10*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Close closes idle connections to the application.
func (p *Proxy) Close() {
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
}

// requestState is the state of a request while it is forwarded.
type requestState struct {
	limits http.Header // limit headers for the response; may be nil
	body   *body       // the client's body; may be nil
}

type requestStateKey struct{}

// rejection returns the response to a request that is rejected, whatever the policies decide, or nil. It removes odd headers before the
// gate reads them, so that it decides by what the application receives.
func (p *Proxy) rejection(r *http.Request) *problemjson.Document {
	if refusal := unsupported(r); refusal != nil {
		return refusal
	}
	p.dropOdd(r.Header)
	return p.ambiguous(r)
}

// Rejection returns why a request is rejected, whatever the policies decide, or "". It removes the headers that the proxy removes.
func (p *Proxy) Rejection(r *http.Request) string {
	if refusal := p.rejection(r); refusal != nil {
		return refusal.Detail
	}
	return ""
}

// ServeHTTP forwards the request, or refuses it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refusal := p.rejection(r); refusal != nil {
		refusal.Send(w)
		return
	}
	v, held, err := p.gate.HoldRequest(r.Context(), r, p.logSlotError)
	defer held.Release(r.Context(), p.logSlotError) // also after a websocket has ended, or the client has disconnected
	switch {
	case err != nil:
		p.gateFailed(w, r, err)
	case !v.Decision.Allowed:
		p.refuse(w, r, &v)
	default:
		state := &requestState{limits: p.limitHeader(&v)}
		ctx := context.WithValue(r.Context(), requestStateKey{}, state)
		r = r.WithContext(ctx)
		if r.Body != nil && r.Body != http.NoBody {
			state.body = &body{ReadCloser: r.Body}
			r.Body = state.body
		}
		p.pass.ServeHTTP(w, r)
	}
}

// unsupported returns the response to a request that a reverse proxy does not support, or nil. Such a request could make the gate and
// the application see different paths.
func unsupported(r *http.Request) *problemjson.Document {
	switch {
	case r.Method == http.MethodConnect:
		return &problemjson.Document{Status: http.StatusMethodNotAllowed, Detail: "Tunnels are not supported."}
	case r.URL.Opaque != "", r.URL.Path == "*" && r.Method != http.MethodOptions:
		return &problemjson.Document{Status: http.StatusBadRequest, Detail: "The target of the request is not a path."}
	}
	return nil
}

// invalid returns an error about an option.
func invalid(option, format string, args ...any) error {
	return &options.Error{Package: "proxy", Option: option, Err: fmt.Errorf(format, args...)}
}
