package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// body is the body of a client's request. It records whether reading failed, to distinguish failures of the client from failures of
// the application.
type body struct {
	io.ReadCloser
	failed atomic.Bool
	atEnd  func() // called when the body and its trailers have been read; may be nil
}

// Read reads the next part, and records the end or a failure.
func (b *body) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if err != nil && err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.failed.Store(true)
	}
	if err == io.EOF && b.atEnd != nil {
		b.atEnd()
	}
	return n, err
}

// withIdleDeadlines returns the handler with a bound on how long a client may keep it waiting. The timeouts of http.Server do not
// help: they apply to whole requests and responses, which may be large or endless.
func (p *Proxy) withIdleDeadlines() http.Handler {
	idle, websocketIdle := p.opts.Idle, p.opts.WebsocketIdle
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		to := &deadlineWriter{ResponseWriter: w, control: control, idle: idle, websocketIdle: websocketIdle, http2: r.ProtoMajor > 1}
		to.end() // lifts the server's own timeout
		if r.Body != nil && r.Body != http.NoBody {
			from := &deadlineBody{ReadCloser: r.Body, control: control, idle: idle}
			from.begin()
			r.Body = from
		}
		p.ServeHTTP(to, r)
		to.begin() // the end of the response may still have to be written
	})
}

// deadlineBody bounds the wait for each part of a request.
type deadlineBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
}

// Read reads the next part. After the end there must be no deadline: the server continues to read, to notice when the client
// disconnects. Before the end the deadline stays, for when the server skips the unread rest.
func (b *deadlineBody) Read(to []byte) (int, error) {
	b.begin()
	n, err := b.ReadCloser.Read(to)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *deadlineBody) begin() {
	_ = b.control.SetReadDeadline(time.Now().Add(b.idle)) // all connections of net/http support deadlines
}

// deadlineWriter bounds the wait for the client to accept each part of a response.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration
	http2   bool // HTTP/2, where a deadline ends the stream even if nothing is being written

	websocketIdle time.Duration
}

func (w *deadlineWriter) begin() {
	if !w.http2 {
		w.bound()
	}
}

func (w *deadlineWriter) end() {
	if w.http2 {
		_ = w.control.SetWriteDeadline(time.Time{})
	}
}

// WriteHeader writes the header, which is sent immediately for interim responses.
func (w *deadlineWriter) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *deadlineWriter) Write(part []byte) (int, error) {
	w.bound()
	defer w.end()
	return w.ResponseWriter.Write(part)
}

// FlushError sends what has been written.
func (w *deadlineWriter) FlushError() error {
	w.bound()
	defer w.end()
	return w.control.Flush()
}

// bound allows twice the time: before the server writes the header, it may have to skip the rest of the body.
func (w *deadlineWriter) bound() { _ = w.control.SetWriteDeadline(time.Now().Add(2 * w.idle)) }

// Unwrap is for http.ResponseController.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
