package server

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
)

// timeouts bounds how long a client may take.
type timeouts struct {
	header   time.Duration // from the first byte of a request, or from the connection, to the end of its header
	request  time.Duration // to the end of its body
	response time.Duration // to the end of the response
	idle     time.Duration // between requests
}

// The first two are equal, which saves setting a second deadline for every request.
var defaultTimeouts = timeouts{header: 10 * time.Second, request: 10 * time.Second, response: 15 * time.Second, idle: 2 * time.Minute}

// newHTTP returns an HTTP server that slow clients cannot tie up: reading a request, answering it and waiting for the next
// one are all bounded.
func newHTTP(handler http.Handler, secure *tls.Config, wait timeouts, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		TLSConfig:         secure,
		ReadHeaderTimeout: wait.header,
		ReadTimeout:       wait.request,
		WriteTimeout:      wait.response,
		IdleTimeout:       wait.idle,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// public returns the handler for clients and proxies.
func (s *Server) public() http.Handler {
	mux := http.NewServeMux()
	s.health(mux)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, "This is a Slidegate rate limiter. Use POST /v1/allow; /v1/openapi.json describes it and all other requests.\n")
	})
	var tags []string
	if s.envoy != nil {
		tags = append(tags, "envoy")
	}
	if s.hasRules() {
		tags = append(tags, "rules")
	}
	api := s.tokens.require(changes, s.api.Handler(tags...))
	mux.Handle("/", api) // its 404 response lists the valid paths
	for _, path := range []string{"acquire", "allow", "cancel", "charge", "openapi.json", "peek", "release", "renew", "reserve", "settle"} {
		mux.Handle("/v1/"+path, api) // separate paths, for the names of spans
	}
	mux.Handle("/v1/refund", s.tokens.require(changes, s.requireAdmin(s.api.Handler(tags...))))
	mux.Handle("/v1/check", s.forward) // see Options.Tokens
	if s.envoy != nil {
		if s.hasRules() {
			mux.Handle("/json", s.tokens.require(changes, s.envoy.Handler()))
		}
		mux.Handle("/healthcheck", s.envoy.Handler())
	}
	return s.telemetry.traced(mux)
}

// hasRules reports whether /json is served. Without rules, the response to every request would be OK.
func (s *Server) hasRules() bool { return s.envoy != nil && s.rulesConfigured() }

// admin returns the handler for operators. It may show keys.
func (s *Server) admin() http.Handler {
	mux := http.NewServeMux()
	s.health(mux)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, "This is the admin listener of a Slidegate rate limiter: /metrics, /v1/top, /v1/explain?key=KEY, POST /v1/peek, POST /v1/reset, POST /v1/reload, /v1/rulings; /v1/openapi.json lists all.\n")
	})
	mux.Handle("/", s.operators().require(looks, s.operations()))
	return mux
}

// operations returns the handler for everything that requires an operator's token, if there are tokens.
func (s *Server) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.api.AdminHandler())
	mux.HandleFunc("GET /v1/top", s.listTop)
	mux.HandleFunc("GET /v1/config", s.showConfig)
	// A request to reload has no body whose type would make a browser send a preflight request, so a web page could
	// trigger it.
	mux.Handle("POST /v1/reload", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serveReload)))
	mux.Handle("/metrics", s.telemetry.page())
	s.rulings.Routes(mux)
	return mux
}

// metricsHandler returns the handler for metrics collectors, which need no token.
func (s *Server) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	s.health(mux)
	mux.Handle("GET /metrics", s.telemetry.page())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problemjson.Document{Status: http.StatusNotFound, Detail: "not found; this listener serves /metrics, /healthz and /readyz"}.Send(w)
	})
	return mux
}

func healthy(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok\n") }

// health adds the paths for load balancers: /healthz reports whether the process is alive, /readyz whether it can decide. With
// exclude=store, /readyz reports only whether it is about to stop: if all instances share a store, none is better than another
// while the store is down.
func (s *Server) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if s.drained.Err() != nil {
			problemjson.Document{Status: http.StatusServiceUnavailable, Detail: "draining: the service is about to stop"}.Send(w)
			return
		}
		if r.URL.Query().Get("exclude") != "store" && s.ready.check() != nil {
			problemjson.Document{
				Status: http.StatusServiceUnavailable, Detail: "the store cannot be reached; decisions are made by the failure mode" + s.unread("; "),
			}.Send(w)
			return
		}
		if s.book.ReadAt().IsZero() && s.ready.check() == nil { // otherwise nothing can be done about it
			problemjson.Document{Status: http.StatusServiceUnavailable, Detail: notRead}.Send(w)
			return
		}
		if s.envoy != nil && s.envoy.Waiting() {
			problemjson.Document{Status: http.StatusServiceUnavailable, Detail: "the management server has sent no rules for Envoy yet"}.Send(w)
			return
		}
		writeText(w, "ready"+s.unread(", but ")+"\n")
	})
}

const notRead = "the rulings have not been read from the store yet, so blocked clients would be admitted"

// unread returns a note that the rulings have not been read yet, or "" if they have been.
func (s *Server) unread(before string) string {
	if s.book.ReadAt().IsZero() {
		return before + notRead
	}
	return ""
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may be gone
}
