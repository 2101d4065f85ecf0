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
	mux.HandleFunc("POST /json", s.serveJSON)
	mux.HandleFunc("/healthcheck", s.serveHealth)
	return mux
}

// crossOrigin detects requests from pages of another site by the headers Sec-Fetch-Site and Origin, one of which
// browsers send with every POST.
var crossOrigin = http.NewCrossOriginProtection()

// checkJSONRequest rejects requests that a web page could make a browser send without a preflight. The type that curl -d
// sends is accepted as JSON, as in the original, since that is how it is usually called. An HTML form has the same type,
// but browsers send an Origin with it.
func checkJSONRequest(r *http.Request) (status int, problem string) {
	if err := crossOrigin.Check(r); err != nil {
		return http.StatusForbidden, "envoy: cross-origin requests to /json are not allowed"
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
	if status, problem := checkJSONRequest(r); problem != "" {
		http.Error(w, problem, status)
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
