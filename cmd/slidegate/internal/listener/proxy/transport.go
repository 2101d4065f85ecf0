package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"
)

// newTransport returns the transport to the application. It does not change requests: it asks for no compression that the client did
// not ask for, and it ignores proxies named in the environment.
func newTransport(o *Options) *http.Transport {
	const dialTimeout = 10 * time.Second
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  o.Timeout,
		ExpectContinueTimeout:  time.Second,
		MaxIdleConnsPerHost:    512,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
}

// rewrite turns the client's request into the request to the application. Hop-by-hop headers have already been removed.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.URL.Scheme, out.URL.Host = p.opts.To.Scheme, p.opts.To.Host
	out.URL.RawQuery = r.In.URL.RawQuery // verbatim, even if url.ParseQuery rejects it: the application parses it
	out.Trailer = r.In.Trailer           // the values arrive at the end of the body
	if p.opts.RewriteHost {
		out.Host = ""
	}
	// A connection that switches to another protocol counts as one request, whatever happens on it. Tunnelling HTTP through it would
	// bypass all limits, so only websockets are allowed.
	if !strings.EqualFold(out.Header.Get("Upgrade"), "websocket") {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
		out.Header.Del("Http2-Settings")
	}
	p.forward(r)
}

// addLimitHeader adds the limit headers to the application's response, unless the application sends its own.
func addLimitHeader(response *http.Response) error {
	state, ok := response.Request.Context().Value(requestStateKey{}).(*requestState)
	if !ok {
		return nil
	}
	for name := range state.limits {
		if _, own := response.Header[name]; own {
			return nil
		}
	}
	for name, lines := range state.limits {
		response.Header[name] = lines
	}
	return nil
}

// forwardFailed responds to a request that the application did not answer.
func (p *Proxy) forwardFailed(w http.ResponseWriter, r *http.Request, err error) {
	state, _ := r.Context().Value(requestStateKey{}).(*requestState)
	var network net.Error
	switch {
	case state != nil && state.body != nil && state.body.failed.Load():
		clientFailed.Send(w)
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client has disconnected, or the proxy is stopping
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		p.failures.Warn("proxy: the application did not answer in time", err)
		timedOut.Send(w)
	default:
		p.failures.Warn("proxy: the application could not be reached", err)
		unreachable.Send(w)
	}
}

// buffers is the pool of buffers for copying bodies.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferBytes)
}

// Put returns a buffer to the pool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferBytes]byte)(buffer)) }
