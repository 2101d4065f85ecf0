package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// body is what a client sends. It remembers whether it came to its end, for who else would know whether a request failed
// by the client or by the application.
type body struct {
	io.ReadCloser
	failed atomic.Bool
	atEnd  func() // called when all of it was read, with the trailers; nil for nothing
}

// Read reads what comes next.
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

// patiently is the handler with a bound on how long a client may keep it waiting. The timeouts of http.Server would not do:
// they are about whole requests and answers, which may be large, or never end.
func (p *Proxy) patiently() http.Handler {
	idle, websocketIdle := p.opts.Idle, p.opts.WebsocketIdle
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		to := &patientWriter{ResponseWriter: w, control: control, idle: idle, websocketIdle: websocketIdle, stream: r.ProtoMajor > 1}
		to.end() // of the server's own timeout
		if r.Body != nil && r.Body != http.NoBody {
			from := &patientBody{ReadCloser: r.Body, control: control, idle: idle}
			from.begin()
			r.Body = from
		}
		p.ServeHTTP(to, r)
		to.begin() // there may be an end of it left to write
	})
}

// patientBody waits for each part of a request for so long and no longer.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
}

// Read reads what comes next. After the end nothing must run: the server goes on reading, to find out when the client goes
// away. Before it, the deadline stays, for when the server skips what nobody has read.
func (b *patientBody) Read(to []byte) (int, error) {
	b.begin()
	n, err := b.ReadCloser.Read(to)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *patientBody) begin() {
	_ = b.control.SetReadDeadline(time.Now().Add(b.idle)) // all connections of net/http have deadlines
}

// patientWriter waits until each part of an answer is taken for so long and no longer.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration
	stream  bool // of HTTP/2, which is ended by a deadline even if nothing is being written

	websocketIdle time.Duration
}

func (w *patientWriter) begin() {
	if !w.stream {
		w.bound()
	}
}

func (w *patientWriter) end() {
	if w.stream {
		_ = w.control.SetWriteDeadline(time.Time{})
	}
}

// WriteHeader writes the head, which with interim answers is sent at once.
func (w *patientWriter) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *patientWriter) Write(part []byte) (int, error) {
	w.bound()
	defer w.end()
	return w.ResponseWriter.Write(part)
}

// FlushError sends what was written.
func (w *patientWriter) FlushError() error {
	w.bound()
	defer w.end()
	return w.control.Flush()
}

// bound gives the client time twice: before the server writes the head, it may have to skip what is left of the body.
func (w *patientWriter) bound() { _ = w.control.SetWriteDeadline(time.Now().Add(2 * w.idle)) }

// Unwrap is how http.ResponseController finds what else the writer can do.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
