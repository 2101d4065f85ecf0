package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// recorder records what is written to a response. The features of the http.ResponseWriter below it still work, by
// http.ResponseController and by the older type assertions, through shown; only http.CloseNotifier, long deprecated, is gone.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	cost   atomic.Pointer[int64] // by SetCost; atomic because http.TimeoutHandler lets a handler run on
	outer  *recorder             // of a middleware around this one; nil if there is none

	holding  holding
	settles  bool // a policy with a CostAfter must see the response
	slots    bool // the request holds slots
	finished bool // the handler returned, and did not panic
}

// shown returns the recorder as the handler sees it: with exactly the optional interfaces that the writer below has, directly
// or by Unwrap, since handlers rely on the interfaces that a writer implements.
func (c *recorder) shown() http.ResponseWriter {
	_, flushes := below[http.Flusher](c.ResponseWriter)
	_, hijacks := below[http.Hijacker](c.ResponseWriter)
	_, pushes := below[http.Pusher](c.ResponseWriter)
	b := bare{c}
	switch {
	case flushes && hijacks && pushes:
		return struct {
			bare
			http.Flusher
			http.Hijacker
			http.Pusher
		}{b, c, c, c}
	case flushes && hijacks:
		return struct {
			bare
			http.Flusher
			http.Hijacker
		}{b, c, c}
	case flushes && pushes:
		return struct {
			bare
			http.Flusher
			http.Pusher
		}{b, c, c}
	case hijacks && pushes:
		return struct {
			bare
			http.Hijacker
			http.Pusher
		}{b, c, c}
	case flushes:
		return struct {
			bare
			http.Flusher
		}{b, c}
	case hijacks:
		return struct {
			bare
			http.Hijacker
		}{b, c}
	case pushes:
		return struct {
			bare
			http.Pusher
		}{b, c}
	}
	return b
}

// bare is a recorder without optional interfaces, except those that always work.
type bare struct{ c *recorder }

func (b bare) Header() http.Header                    { return b.c.Header() }
func (b bare) Write(p []byte) (int, error)            { return b.c.Write(p) }
func (b bare) WriteHeader(status int)                 { b.c.WriteHeader(status) }
func (b bare) ReadFrom(from io.Reader) (int64, error) { return b.c.ReadFrom(from) }
func (b bare) FlushError() error                      { return b.c.FlushError() }
func (b bare) Unwrap() http.ResponseWriter            { return b.c.Unwrap() }

// below returns the first writer that implements T, beginning at w and going down by Unwrap.
func below[T any](w http.ResponseWriter) (found T, ok bool) {
	for w != nil {
		if found, ok = w.(T); ok {
			return found, true
		}
		w = unwrapped(w)
	}
	return found, false
}

// response returns the response to a request that was admitted at cost.
func (c *recorder) response(cost int64) Response {
	if actual := c.cost.Load(); actual != nil {
		cost = *actual
	}
	return Response{Status: c.status, Bytes: c.bytes, Cost: cost}
}

// Unwrap is for http.ResponseController.
func (c *recorder) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *recorder) WriteHeader(status int) {
	// 1xx responses precede the final one, except 101, which is final.
	if c.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *recorder) Write(p []byte) (int, error) {
	c.begin()
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	return n, err
}

// ReadFrom lets the server send files without a copy if it can.
func (c *recorder) ReadFrom(from io.Reader) (int64, error) {
	n, err := io.Copy(c.ResponseWriter, from)
	if n > 0 { // if the source fails immediately, the handler still chooses the status
		c.begin()
	}
	c.bytes += n
	return n, err
}

// FlushError is how http.ResponseController flushes.
func (c *recorder) FlushError() error {
	c.begin()
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Flush sends what has been written.
func (c *recorder) Flush() { _ = c.FlushError() } // a ResponseController returns the error

// Push starts an HTTP/2 push, if the server can.
func (c *recorder) Push(target string, opts *http.PushOptions) error {
	if to, ok := below[http.Pusher](c.ResponseWriter); ok {
		return to.Push(target, opts)
	}
	return http.ErrNotSupported
}

// Hijack hands over the connection, if the server can. The slots of the request are then held until the connection is closed.
func (c *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return conn, rw, err
	}
	if c.status == 0 {
		c.status = http.StatusSwitchingProtocols
	}
	if c.slots && c.holding.keep() {
		conn = holdConn(conn, sync.OnceFunc(c.holding.unhold))
	}
	return conn, rw, nil
}

func (c *recorder) begin() {
	if c.status == 0 {
		c.status = http.StatusOK
	}
}
