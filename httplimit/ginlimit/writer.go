package ginlimit

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// writer passes the handlers' response on to the middleware. Gin stores a status and sends it when the body begins, so
// the middleware receives it only then: a status that is replaced before that is never sent.
type writer struct {
	gin.ResponseWriter                     // the context's previous writer; provides Status, Size and Written
	to                 http.ResponseWriter // the middleware's writer, which writes to the one above
	started            bool
}

// reportStatus reports the status to the middleware, once.
func (w *writer) reportStatus() {
	if !w.started {
		w.started = true
		w.to.WriteHeader(w.Status())
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.reportStatus()
	return w.to.Write(p)
}

func (w *writer) WriteString(text string) (int, error) { return w.Write([]byte(text)) }

func (w *writer) WriteHeaderNow() {
	w.reportStatus()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *writer) Flush() {
	w.reportStatus()
	w.ResponseWriter.Flush()
}

// Hijack hands over the connection. The middleware counts that as status 101, unless another status was sent before.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.to).Hijack()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
