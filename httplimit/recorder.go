package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
)

// recorder records what is written to a response. The features of the http.ResponseWriter below it still work, by
// http.ResponseController and by the older type assertions on the result of writer; only http.CloseNotifier, long deprecated,
// and http.Pusher, which browsers ignore, are missing.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	outer  *recorder // of a middleware around this one; nil if there is none

	mu    sync.Mutex // because http.TimeoutHandler lets a handler run on
	costs []handlerCost

	holding  holding
	settles  bool // a policy with a CostAfter must see the response
	slots    bool // the request holds slots
	finished bool // the handler returned, and did not panic
}

// writer returns the recorder for the handler, with http.Flusher and http.Hijacker exactly if the writer below has them, directly or by
// Unwrap, since handlers rely on the interfaces that a writer implements.
func (c *recorder) writer() http.ResponseWriter {
	_, flushes := findWriter[http.Flusher](c.ResponseWriter)
	_, hijacks := findWriter[http.Hijacker](c.ResponseWriter)
	b := basicWriter{c}
	switch {
	case flushes && hijacks:
		return struct {
			basicWriter
			http.Flusher
			http.Hijacker
		}{b, c, c}
	case flushes:
		return struct {
			basicWriter
			http.Flusher
		}{b, c}
	case hijacks:
		return struct {
			basicWriter
			http.Hijacker
		}{b, c}
	}
	return b
}

// basicWriter is a recorder without optional interfaces, except those that always work.
type basicWriter struct{ c *recorder }

func (b basicWriter) Header() http.Header                    { return b.c.Header() }
func (b basicWriter) Write(p []byte) (int, error)            { return b.c.Write(p) }
func (b basicWriter) WriteHeader(status int)                 { b.c.WriteHeader(status) }
func (b basicWriter) ReadFrom(from io.Reader) (int64, error) { return b.c.ReadFrom(from) }
func (b basicWriter) FlushError() error                      { return b.c.FlushError() }
func (b basicWriter) Unwrap() http.ResponseWriter            { return b.c.Unwrap() }

// findWriter returns the first writer that implements T, beginning at w and going down by Unwrap.
func findWriter[T any](w http.ResponseWriter) (found T, ok bool) {
	for w != nil {
		if found, ok = w.(T); ok {
			return found, true
		}
		w = unwrap(w)
	}
	return found, false
}

// response returns the response to a request that a policy admitted at cost.
func (c *recorder) response(policy *compiled, cost int64) Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.costs {
		if own := &c.costs[i]; own.policy == policy && own.set {
			return Response{Status: c.status, Bytes: c.bytes, Cost: own.cost, CostSet: true}
		}
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
		conn = holdConn(conn, sync.OnceFunc(c.holding.release))
	}
	return conn, rw, nil
}

func (c *recorder) begin() {
	if c.status == 0 {
		c.status = http.StatusOK
	}
}
