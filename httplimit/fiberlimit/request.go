package fiberlimit

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v3"
)

// newRequest returns fiber's request as net/http would have parsed it. Everything is copied, because fiber reuses its memory
// for the next request and keys of policies outlive this one; only the body is not, and can be read as long as handlers run.
func newRequest(c fiber.Ctx) *http.Request {
	from := c.Request()
	r := &http.Request{
		Method:        string(from.Header.Method()),
		Proto:         string(from.Header.Protocol()),
		Header:        make(http.Header, from.Header.Len()),
		Body:          http.NoBody,
		ContentLength: contentLength(c),
		Close:         from.Header.ConnectionClose(),
		Host:          string(from.Host()),
		RemoteAddr:    c.RequestCtx().RemoteAddr().String(),
		RequestURI:    string(from.Header.RequestURI()),
		TLS:           c.RequestCtx().TLSConnectionState(),
	}
	r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(r.Proto)
	target, _, _ := strings.Cut(r.RequestURI, "#") // fiber routes without a fragment, and net/url would make it part of the path
	var err error
	if r.URL, err = url.ParseRequestURI(target); err != nil {
		// Fiber routes requests that net/http would not parse, so they must be limited too.
		r.URL = &url.URL{Path: string(from.URI().Path()), RawQuery: string(from.URI().QueryString())}
	}
	for name, value := range from.Header.All() {
		r.Header.Add(string(name), string(value))
	}
	r.Header.Del("Host") // net/http keeps it in r.Host alone
	if !from.IsBodyStream() && r.ContentLength != 0 {
		r.Body = &body{c: c}
	}
	for _, name := range c.Route().Params {
		r.SetPathValue(name, strings.Clone(c.Params(name)))
	}
	return r.WithContext(c.Context())
}

// contentLength returns the length of the body, or -1 if it is unknown. Fiber returns -1 for a chunked body and -2 if neither
// header is present, which in a request means that it has no body.
func contentLength(c fiber.Ctx) int64 {
	n := c.Request().Header.ContentLength()
	if n < -1 {
		return 0
	}
	return int64(n)
}

// body reads a body that fiber has in memory, and leaves it there for the handlers. It does nothing until it is read, because
// fiber may have to reassemble a form with files for that.
type body struct {
	c    fiber.Ctx
	rest *bytes.Reader
}

func (b *body) Read(p []byte) (int, error) {
	if b.rest == nil {
		b.rest = bytes.NewReader(b.c.Request().Body())
	}
	return b.rest.Read(p)
}

func (b *body) Close() error { return nil }

var _ io.ReadCloser = (*body)(nil)
