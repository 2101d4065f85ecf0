package service

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/page"
	"github.com/slidegate/slidegate/store"
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
	page.Routes(mux, func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, "This is the admin listener of a Slidegate rate limiter: /metrics, /v1/seen, /v1/explain?key=KEY, POST /v1/peek, POST /v1/reset, POST /v1/reload, /v1/rulings; /v1/openapi.json lists all.\n")
	})
	mux.Handle("/", s.operators().require(looks, s.operations()))
	return mux
}

// operations returns the handler for everything that requires an operator's token, if there are tokens.
func (s *Server) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.api.AdminHandler())
	mux.HandleFunc("GET /v1/whoami", whoami)
	s.seenRoutes(mux)
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

// health adds the paths for load balancers: /healthz reports whether the process is alive, /readyz whether it can decide.
//
// While no charge can be written to the store, /readyz responds with 200 and "degraded: store" if every policy can decide without it:
// all instances share the store, so taking them out of a load balancer would replace limits that are counted less exactly by no service
// at all. The same goes for "degraded: state", while the folder of --state cannot be written. It responds with 503 if a policy has the
// failure mode closed, since an instance that reaches the store may be better, and to requests with require=store.
func (s *Server) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		text, why := s.readiness(r.URL.Query().Get("require") == "store")
		if why != "" {
			problemjson.Document{Status: http.StatusServiceUnavailable, Detail: why}.Send(w)
			return
		}
		writeText(w, text+"\n")
	})
}

// readiness returns what /readyz reports: a text if the service is ready, or the reason why it is not.
func (s *Server) readiness(requireStore bool) (text, why string) {
	down, unread := s.stores.Health(), s.unread()
	switch {
	case s.drained.Err() != nil:
		return "", "draining: the service is about to stop"
	case down == nil && unread: // while the store is down, nothing can be done about it
		return "", notRead
	case s.envoy != nil && s.envoy.Waiting():
		return "", "the management server has sent no rules for Envoy yet"
	case down == nil && s.stateFailure() != nil:
		return "degraded: state: what is decided is in memory only, and a crash would forget it: " + s.stateFailure().Error(), ""
	case down == nil:
		return "ready", ""
	}
	text = "degraded: store: no charge can be written to it, or to one of its nodes, so failure modes decide"
	if unread {
		text += "; " + notRead
	}
	if closed := s.closedPolicies(); len(closed) > 0 {
		return "", text + "; closed refuses the requests of " + strings.Join(closed, ", ")
	}
	if requireStore {
		return "", text
	}
	return text, ""
}

const notRead = "the rulings have not been read from the store yet, so blocked clients would be admitted"

// closedPolicies returns the policies that refuse all requests while the store is down. Rules for Envoy are among them only if the file
// sets the mode: otherwise Envoy gets errors, and decides itself.
func (s *Server) closedPolicies() []string {
	names := s.gate.PoliciesIn(store.FailClosed)
	if s.hasRules() && s.opts.File.Service.Failure == store.FailClosed {
		names = append(names, "Envoy")
	}
	return names
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may be gone
}
