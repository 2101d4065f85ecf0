package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// recorder sees what is written to a response. Everything that the http.ResponseWriter below it can do still works, by
// http.ResponseController and by the older type assertions.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	said   bool
	cost   int64
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
	c.begin()
	n, err := io.Copy(c.ResponseWriter, from)
	c.bytes += n
	return n, err
}

// Flush sends what has been written, if the server can.
func (c *recorder) Flush() {
	c.begin()
	_ = http.NewResponseController(c.ResponseWriter).Flush() // who needs to know uses a ResponseController
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
