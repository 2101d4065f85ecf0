package envoy

import (
	"io"
	"net/http"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxBody is how large a request in JSON may be, in bytes.
const maxBody = 1 << 20

// Handler returns what the original serves over HTTP: POST /json, a request and its answer as the protocol writes them in
// JSON, with the status 200 or 429; and /healthcheck, with the status 200, or 500 after Drain. A request that is wrong gets
// the status 400, and one to which the store gives no answer 500.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", s.serveJSON)
	mux.HandleFunc("/healthcheck", s.serveHealth)
	return mux
}

func (s *Service) serveJSON(w http.ResponseWriter, r *http.Request) {
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
	_, _ = io.WriteString(w, "OK")
}
