package server

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
)

// timeouts bound what a client may take its time for.
type timeouts struct {
	header  time.Duration // from the first byte of a request, or from the connection, to the end of its header
	request time.Duration // to the end of its body
	answer  time.Duration // to the end of the answer
	idle    time.Duration // between requests
}

// The first two are one, which saves every request a deadline.
var usualTimeouts = timeouts{header: 10 * time.Second, request: 10 * time.Second, answer: 15 * time.Second, idle: 2 * time.Minute}

// newHTTP returns an HTTP server that no slow client can hold: reading a request, answering it and waiting for the next one
// are all bounded.
func newHTTP(handler http.Handler, secure *tls.Config, wait timeouts, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		TLSConfig:         secure,
		ReadHeaderTimeout: wait.header,
		ReadTimeout:       wait.request,
		WriteTimeout:      wait.answer,
		IdleTimeout:       wait.idle,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// public is what clients and proxies ask.
func (s *Server) public() http.Handler {
	mux := http.NewServeMux()
	s.health(mux)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		say(w, "This is a Slidegate rate limiter. Ask it with POST /v1/allow; /v1/openapi.json says how, and what else there is.\n")
	})
	var more []string
	if s.envoy != nil {
		more = append(more, "envoy")
	}
	if s.hasRules() {
		more = append(more, "rules")
	}
	api := s.tokens.require(s.api.Handler(more...))
	mux.Handle("/", api) // which says what there is instead
	for _, path := range []string{"acquire", "allow", "cancel", "charge", "openapi.json", "peek", "release", "renew", "reserve", "settle"} {
		mux.Handle("/v1/"+path, api) // for the names of spans
	}
	mux.Handle("/v1/refund", s.tokens.require(s.requireAdmin(s.api.Handler(more...))))
	mux.Handle("/v1/check", s.forward) // see Options.Tokens
	if s.envoy != nil {
		if s.hasRules() {
			mux.Handle("/json", s.tokens.require(s.envoy.Handler()))
		}
		mux.Handle("/healthcheck", s.envoy.Handler())
	}
	return s.telemetry.traced(mux)
}

// hasRules reports whether /json is there. Without rules it would say OK to everything.
func (s *Server) hasRules() bool { return s.envoy != nil && s.wantsRules() }

// admin is what operators ask. It may show keys.
func (s *Server) admin() http.Handler {
	mux := http.NewServeMux()
	s.health(mux)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		say(w, "This is the admin door of a Slidegate rate limiter: /metrics, /v1/top, /v1/explain?key=KEY, POST /v1/peek, POST /v1/reset, POST /v1/reload, /v1/rulings; /v1/openapi.json has all.\n")
	})
	mux.Handle("/", s.operators().require(s.operations()))
	return mux
}

// operations is what operators need a token for, if there are tokens.
func (s *Server) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.api.AdminHandler())
	mux.HandleFunc("GET /v1/top", s.listTop)
	mux.HandleFunc("GET /v1/config", s.showConfig)
	// It has no body whose type would have a browser ask first, so a web page could have it asked for.
	mux.Handle("POST /v1/reload", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serveReload)))
	mux.Handle("/metrics", s.telemetry.page())
	s.rulings.Routes(mux, nil)
	return mux
}

// measures is what collectors of metrics ask, without a token.
func (s *Server) measures() http.Handler {
	mux := http.NewServeMux()
	s.health(mux)
	mux.Handle("GET /metrics", s.telemetry.page())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problemjson.Document{Status: http.StatusNotFound, Detail: "there are /metrics, /healthz and /readyz here"}.Send(w)
	})
	return mux
}

func healthy(w http.ResponseWriter, _ *http.Request) { say(w, "ok\n") }

// health adds what load balancers ask: whether the process lives, and whether it can decide. With exclude=store, the second says only
// whether it is about to end: where all instances share a store, none is better than another while it is down.
func (s *Server) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if s.drained.Err() != nil {
			problemjson.Document{Status: http.StatusServiceUnavailable, Detail: "draining: the service is about to end"}.Send(w)
			return
		}
		if r.URL.Query().Get("exclude") != "store" && s.ready.check() != nil {
			problemjson.Document{
				Status: http.StatusServiceUnavailable, Detail: "the store cannot be reached; decisions are made by the failure policy",
			}.Send(w)
			return
		}
		if s.envoy != nil && s.envoy.Waiting() {
			problemjson.Document{Status: http.StatusServiceUnavailable, Detail: "the management server has sent no rules for Envoy yet"}.Send(w)
			return
		}
		say(w, "ready\n")
	})
}

func say(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may be gone
}
