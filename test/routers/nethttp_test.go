package routers

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/slidegate/slidegate/httplimit"
)

// muxSite wraps the whole mux of net/http.
func muxSite(limits *httplimit.Middleware, s *site) http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range s.handlers(func(r *http.Request) string { return r.PathValue("name") }) {
		mux.HandleFunc(pattern, handler)
	}
	if s.recoverInside {
		return limits.Wrap(recovered(mux))
	}
	return recovered(limits.Wrap(mux))
}

// chiSite passes the middleware to chi directly.
func chiSite(limits *httplimit.Middleware, s *site) http.Handler {
	r := chi.NewRouter()
	if s.recoverInside {
		r.Use(limits.Wrap, recovered)
	} else {
		r.Use(recovered, limits.Wrap)
	}
	r.Use(middleware.GetHead)
	for pattern, handler := range s.handlers(func(r *http.Request) string { return chi.URLParam(r, "name") }) {
		r.HandleFunc(pattern, handler)
	}
	return r
}

// recovered turns panics into responses.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// handlers are the routes of a site by pattern, for routers that accept handlers of net/http.
func (s *site) handlers(name func(*http.Request) string) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /hello/{name}": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, s.greet(name(r))) },
		"GET /json":         func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ok":true}`) },
		"GET /nothing":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"GET /moved":        func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/json", http.StatusFound) },
		"GET /file":         func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, s.file) },
		"GET /cost":         func(_ http.ResponseWriter, r *http.Request) { httplimit.SetCost(r, 3) },
		"POST /login": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("password") != "right" {
				http.Error(w, "wrong password", http.StatusUnauthorized)
			}
		},
		"GET /fails":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "failed", http.StatusInternalServerError) },
		"GET /panics":   func(http.ResponseWriter, *http.Request) { panic("a bug") },
		"GET /stream":   func(w http.ResponseWriter, _ *http.Request) { s.stream(w) },
		"GET /upgrade":  func(w http.ResponseWriter, _ *http.Request) { upgrade(w) },
		"GET /deadline": func(w http.ResponseWriter, _ *http.Request) { setDeadline(w) },
	}
}

// stream writes a line, and another one when the test lets it. Without a flush the test would not receive the first.
func (s *site) stream(w http.ResponseWriter) {
	fmt.Fprintln(w, "one")
	if err := http.NewResponseController(w).Flush(); err != nil {
		fmt.Fprintln(w, err)
	}
	<-s.proceed
	fmt.Fprintln(w, "two")
}

// upgrade takes over the connection by the type assertion that websocket libraries use, and echoes each line.
func upgrade(w http.ResponseWriter) {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
	echoLines(rw, conn)
}

func echoLines(from io.Reader, to io.Writer) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		fmt.Fprintln(to, lines.Text())
	}
}

// setDeadline responds with the results of setting deadlines.
func setDeadline(w http.ResponseWriter) {
	controller := http.NewResponseController(w)
	write := controller.SetWriteDeadline(time.Now().Add(time.Minute))
	read := controller.SetReadDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(w, write, read)
}
