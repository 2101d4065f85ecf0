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

// newTransport returns what passes requests on. It changes nothing in them: it asks for no compression that the client did
// not ask for, and goes through no proxy that the environment names.
func newTransport(o *Options) *http.Transport {
	dialer := &net.Dialer{Timeout: o.DialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    o.DialTimeout,
		ResponseHeaderTimeout:  o.Timeout,
		ExpectContinueTimeout:  time.Second,
		MaxIdleConnsPerHost:    o.MaxIdle,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
}

// rewrite makes the application's request of the client's. What only concerns the connection is gone already.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.URL.Scheme, out.URL.Host = p.opts.To.Scheme, p.opts.To.Host
	out.URL.RawQuery = r.In.URL.RawQuery // also what url.ParseQuery would not take: it is the application's to read
	out.Trailer = r.In.Trailer           // the values come at the end of the body
	if p.opts.RewriteHost {
		out.Host = ""
	}
	// A connection that is switched to another protocol is one request, whatever happens on it. Another HTTP on it would
	// be a way around all limits, so websockets are the only ones that may ask.
	if !strings.EqualFold(out.Header.Get("Upgrade"), "websocket") {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
		out.Header.Del("Http2-Settings")
	}
	p.forward(r)
}

// addTold adds what the gate has to tell to the application's answer, if the application does not tell such things itself.
func addTold(answer *http.Response) error {
	way, ok := answer.Request.Context().Value(passingKey{}).(*passing)
	if !ok {
		return nil
	}
	for name := range way.told {
		if _, own := answer.Header[name]; own {
			return nil
		}
	}
	for name, lines := range way.told {
		answer.Header[name] = lines
	}
	return nil
}

// failed answers a request to which the application gave no answer.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	way, _ := r.Context().Value(passingKey{}).(*passing)
	var network net.Error
	switch {
	case way != nil && way.body != nil && way.body.failed.Load():
		clientFailed.Send(w)
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client has gone away, or the proxy is about to end
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		p.failures.Warn("proxy: the application did not answer in time", err)
		late.Send(w)
	default:
		p.failures.Warn("proxy: the application could not be asked", err)
		unreachable.Send(w)
	}
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferBytes)
}

// Put takes a buffer back.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferBytes]byte)(buffer)) }
