package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// recorder sees what is written to a response. What the http.ResponseWriter below it can do still works, by
// http.ResponseController and by the older type assertions; only http.CloseNotifier, long deprecated, is gone.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	said   atomic.Pointer[int64] // by SetCost; atomic because http.TimeoutHandler lets a handler run on
}

// response returns what became of a request that was let in for cost.
func (c *recorder) response(cost int64) Response {
	if said := c.said.Load(); said != nil {
		cost = *said
	}
	return Response{Status: c.status, Bytes: c.bytes, Cost: cost}
}

// Unwrap is for http.ResponseController.
func (c *recorder) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *recorder) WriteHeader(status int) {
	// 1xx answers come before the one that counts, but for 101, after which no other comes.
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

// ReadFrom lets files be sent without a copy where the server can.
func (c *recorder) ReadFrom(from io.Reader) (int64, error) {
	n, err := io.Copy(c.ResponseWriter, from)
	if n > 0 { // a source that fails at once leaves the status to the handler
		c.begin()
	}
	c.bytes += n
	return n, err
}

// Flush sends what has been written, if the server can.
func (c *recorder) Flush() { _ = c.FlushError() } // a ResponseController returns the error

// FlushError is how http.ResponseController flushes.
func (c *recorder) FlushError() error {
	c.begin()
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Push starts an HTTP/2 push, if the server can.
func (c *recorder) Push(target string, opts *http.PushOptions) error {
	if pusher, ok := c.ResponseWriter.(http.Pusher); ok {
		return pusher.Push(target, opts)
	}
	return http.ErrNotSupported
}

// Hijack hands over the connection, if the server can.
func (c *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err == nil && c.status == 0 {
		c.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

func (c *recorder) begin() {
	if c.status == 0 {
		c.status = http.StatusOK
	}
}
