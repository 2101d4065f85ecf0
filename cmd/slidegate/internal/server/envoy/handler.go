package envoy

import (
	"io"
	"mime"
	"net/http"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxBody is how large a request in JSON may be, in bytes.
const maxBody = 1 << 20

// Handler returns what the original serves over HTTP: POST /json, a request and its answer as the protocol writes them in
// JSON, with the status 200 or 429; and /healthcheck, with the status 200, or 500 after Drain
// and while rules are awaited. A request that is wrong gets
// the status 400, and one to which the store gives no answer 500. What a page of another site has a browser send gets the
// status 403, and what is not JSON by its Content-Type 415.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", s.serveJSON)
	mux.HandleFunc("/healthcheck", s.serveHealth)
	return mux
}

// crossOrigin finds out by what browsers add whether a page of another site sent a request: Sec-Fetch-Site or Origin, one of
// which they send with every POST.
var crossOrigin = http.NewCrossOriginProtection()

// acceptable refuses requests that a web page could have a browser send without asking first. The type of curl -d is taken for
// JSON, as the original does and as everybody calls it; a form of a page has the same type, and an Origin.
func acceptable(r *http.Request) (status int, problem string) {
	if err := crossOrigin.Check(r); err != nil {
		return http.StatusForbidden, "envoy: a page of another site must not ask /json"
	}
	given := r.Header.Get("Content-Type")
	if given == "" {
		return 0, ""
	}
	kind, _, err := mime.ParseMediaType(given)
	if err != nil || kind != "application/json" && kind != "application/x-www-form-urlencoded" {
		return http.StatusUnsupportedMediaType, "envoy: Content-Type: must be application/json"
	}
	return 0, ""
}

func (s *Service) serveJSON(w http.ResponseWriter, r *http.Request) {
	if status, problem := acceptable(r); problem != "" {
		http.Error(w, problem, status)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	request := &rls.RateLimitRequest{}
	if err == nil {
		err = protojson.Unmarshal(body, request)
	}
	if err != nil {
		http.Error(w, "envoy: the body is not a rate limit request in JSON, or too large", http.StatusBadRequest)
		return
	}
	response, err := s.ShouldRateLimit(r.Context(), request)
	if err != nil {
		code := http.StatusInternalServerError
		if status.Code(err) == codes.InvalidArgument {
			code = http.StatusBadRequest
		}
		http.Error(w, status.Convert(err).Message(), code)
		return
	}
	text, err := protojson.Marshal(response)
	if err != nil {
		http.Error(w, "envoy: the answer cannot be written in JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.GetOverallCode() == codeOver {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text) // whoever has gone away does not miss it
}

func (s *Service) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if s.drained.Load() {
		http.Error(w, "draining", http.StatusInternalServerError)
		return
	}
	if s.Waiting() {
		http.Error(w, "waiting for rules", http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "OK")
}
