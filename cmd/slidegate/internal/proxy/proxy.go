package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/throttlelog"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
)

// Options say where requests go, and how. To is required, the rest may be zero.
type Options struct {
	// To is where the application listens: http or https, and a host. It has no path, for one would be no fence: a
	// client's /../ is passed on as it is.
	To *url.URL
	// Trusted are the proxies that stand before this one. What they say about the client is kept and added to; what anybody
	// else says is taken out. Give those by which the gate finds the client. Trust changes them later.
	Trusted []netip.Prefix
	// RewriteHost sends the host of To instead of the one that the client asked for.
	RewriteHost bool
	// Headers is how answers tell what is left; the zero value is RateLimit and RateLimit-Policy. Where the application
	// writes such fields itself, its own are kept and none are added.
	Headers httplimit.Headers
	// Timeout is how long the application has to begin its answer once it has the request; 0 means a minute. The answer
	// itself may take any time.
	Timeout time.Duration
	// DialTimeout is how long connecting may take; 0 means 10 seconds.
	DialTimeout time.Duration
	// Idle is how long a client may keep the proxy waiting: for the next part of a request, or to take the next part of an
	// answer. 0 means a minute. It does not run while the proxy waits for the application.
	Idle time.Duration
	// WebsocketIdle is how long nothing may pass on a websocket, either way, until it is cut off; 0 means 10 minutes.
	WebsocketIdle time.Duration
	// MaxIdle is how many connections to the application are kept open for the next requests; 0 means 512.
	MaxIdle int
	// Transport passes requests on in place of the one that is made by the fields above; nil for that one.
	Transport http.RoundTripper
	// Logger gets a line, at most one a second, when the application or the store fails; nil means none are written.
	Logger *slog.Logger
}

// Proxy is an http.Handler that passes requests on while the gate admits them. It is safe for concurrent use. The zero
// value is not usable; New makes it. See NewServer for a server that slow clients cannot hold.
//
// The limits that a request faces are found by its path as most applications read it: with everything decoded, also the
// slash, and cleaned of empty parts and of dots. The application gets it as it was written.
//
// A unit is taken when a request is admitted and not given back, whatever becomes of it: also when the application cannot
// be reached. Otherwise clients would press hardest on an application that is down. A slot of an in-flight limit is held until the
// request has come to its end, and renewed meanwhile.
type Proxy struct {
	gate      *gate.Gate
	opts      Options
	log       *slog.Logger
	failures  *throttlelog.Logger // what is the same for every request of an outage
	pass      *httputil.ReverseProxy
	transport *http.Transport // the one that was made here, or nil
	answers   gate.Answers
	trusted   atomic.Pointer[[]netip.Prefix]
	slotLost  func(error) // logs that a slot could not be renewed or released; the request goes on
}

// New returns a proxy that asks the gate.
func New(g *gate.Gate, opts Options) (*Proxy, error) {
	if g == nil {
		return nil, errors.New("proxy: gate: must not be nil; gate.New makes one")
	}
	opts, err := opts.validate()
	if err != nil {
		return nil, err
	}
	p := &Proxy{gate: g, opts: opts, log: opts.Logger, failures: throttlelog.New(opts.Logger)}
	p.answers.Dialect = opts.Headers
	p.slotLost = func(err error) {
		p.failures.Warn("proxy: a slot of an in-flight limit could not be renewed or released", err)
	}
	p.Trust(opts.Trusted)
	transport := opts.Transport
	if transport == nil {
		p.transport = newTransport(&opts)
		transport = p.transport
	}
	p.pass = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: addTold,
		ErrorHandler:   p.failed,
		Transport:      transport,
		BufferPool:     &buffers{},
		ErrorLog:       slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	return p, nil
}

func (o Options) validate() (Options, error) {
	switch {
	case o.To == nil:
		return o, invalid("To", "is missing; say where the application listens, such as http://localhost:3000")
	case o.To.Scheme != "http" && o.To.Scheme != "https":
		return o, invalid("To", "must begin with http:// or https://, not %q", o.To.Scheme)
	case o.To.Hostname() == "":
		return o, invalid("To", "has no host; write one, such as http://localhost:3000")
	case o.To.User != nil || o.To.Path != "" && o.To.Path != "/" || o.To.RawQuery != "" || o.To.Fragment != "":
		return o, invalid("To", "must be a scheme and a host alone; write %s://%s", o.To.Scheme, o.To.Host)
	case o.Headers > httplimit.HeadersNone:
		return o, invalid("Headers", "unknown value %d; use one of httplimit's constants", o.Headers)
	case o.Timeout < 0:
		return o, invalid("Timeout", "must not be negative, but is %v; 0 means a minute", o.Timeout)
	case o.DialTimeout < 0:
		return o, invalid("DialTimeout", "must not be negative, but is %v; 0 means 10 seconds", o.DialTimeout)
	case o.Idle < 0:
		return o, invalid("Idle", "must not be negative, but is %v; 0 means a minute", o.Idle)
	case o.WebsocketIdle < 0:
		return o, invalid("WebsocketIdle", "must not be negative, but is %v; 0 means 10 minutes", o.WebsocketIdle)
	case o.MaxIdle < 0:
		return o, invalid("MaxIdle", "must not be negative, but is %d; 0 means 512", o.MaxIdle)
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = 10 * time.Second
	}
	if o.Idle == 0 {
		o.Idle = time.Minute
	}
	if o.WebsocketIdle == 0 {
		o.WebsocketIdle = 10 * time.Minute
	}
	if o.MaxIdle == 0 {
		o.MaxIdle = 512
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Trust changes which proxies are trusted, from the next request on.
func (p *Proxy) Trust(proxies []netip.Prefix) {
	proxies = slices.Clone(proxies)
	p.trusted.Store(&proxies)
}

// Close closes the connections to the application that no request uses.
func (p *Proxy) Close() {
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
}

// passing is what the parts of one request's way know.
type passing struct {
	told http.Header // what the answer is to tell; nil for nothing
	body *body       // what the client sends; nil for nothing
}

type passingKey struct{}

// ServeHTTP passes the request on, or refuses it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refusal := unfit(r); refusal != nil {
		refusal.Send(w)
		return
	}
	v, held, err := p.gate.HoldRequest(r.Context(), r, p.slotLost)
	defer held.Release(r.Context(), p.slotLost) // also when a connection that became a websocket has ended, or the client has gone
	switch {
	case err != nil:
		p.undecided(w, r, err)
	case !v.Decision.Allowed:
		p.refuse(w, &v)
	default:
		way := &passing{told: p.told(&v)}
		ctx := context.WithValue(r.Context(), passingKey{}, way)
		r = r.WithContext(ctx)
		if r.Body != nil && r.Body != http.NoBody {
			way.body = &body{ReadCloser: r.Body}
			r.Body = way.body
		}
		p.pass.ServeHTTP(w, r)
	}
}

// unfit returns the refusal of a request that a reverse proxy has no use for, or nil. All of them are ways to write a
// request that the gate would see another path of than the application.
func unfit(r *http.Request) *problemjson.Document {
	switch {
	case r.Method == http.MethodConnect:
		return &problemjson.Document{Status: http.StatusMethodNotAllowed, Detail: "There are no tunnels here."}
	case r.URL.Opaque != "", r.URL.Path == "*" && r.Method != http.MethodOptions:
		return &problemjson.Document{Status: http.StatusBadRequest, Detail: "The target of the request is not a path."}
	}
	return nil
}

// invalid returns the error of an option.
func invalid(option, format string, args ...any) error {
	return &config.OptionError{Package: "proxy", Option: option, Err: fmt.Errorf(format, args...)}
}
