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

// maxBody is the maximum size of a JSON request, in bytes.
const maxBody = 1 << 20

// Handler returns what the original serves over HTTP: POST /json, with the request and the response in protobuf's JSON
// and the status 200 or 429; and /healthcheck, with the status 200, or 500 after Drain and while rules are awaited. An
// invalid request gets the status 400, and a request that the store does not answer gets 500. A request that a page of
// another site makes a browser send gets 403, and a request whose Content-Type is not JSON gets 415.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /json", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serveJSON)))
	mux.HandleFunc("/healthcheck", s.serveHealth)
	return mux
}

// hasJSON reports whether the body of a request is JSON, by its type. A web page can make a browser send other types without a
// preflight. The type that curl -d sends is accepted too, as in the original, since that is how it is usually called: an HTML form has the
// same type, but browsers send an Origin with it.
func hasJSON(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(given)
	return given == "" || err == nil && (kind == "application/json" || kind == "application/x-www-form-urlencoded")
}

func (s *Service) serveJSON(w http.ResponseWriter, r *http.Request) {
	if !hasJSON(r) {
		http.Error(w, "envoy: Content-Type: must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	request := &rls.RateLimitRequest{}
	if err == nil {
		err = protojson.Unmarshal(body, request)
	}
	if err != nil {
		http.Error(w, "envoy: the body is not a rate limit request in JSON, or is too large", http.StatusBadRequest)
		return
	}
	response, err := s.ShouldRateLimit(withRemote(r), request)
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
		http.Error(w, "envoy: the response cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.GetOverallCode() == codeOver {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text) // the client may have disconnected
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
