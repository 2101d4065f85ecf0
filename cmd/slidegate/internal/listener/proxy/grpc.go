package proxy

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// isGRPC reports whether a request is a gRPC call. gRPC-Web has media types of its own.
func isGRPC(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.Header.Get("Content-Type"), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// refuseCall responds to a gRPC call that the gate refuses. A client turns a status of HTTP into UNAVAILABLE, which it retries at
// once, so the response is 200 with the status of gRPC in its header. The limit headers have already been set.
func refuseCall(w http.ResponseWriter, v *policy.Decision) {
	h, d := w.Header(), &v.Decision
	s := status.New(codes.ResourceExhausted, "the quota is used up")
	switch {
	case v.Forbidden():
		s = status.New(codes.PermissionDenied, "the client is blocked or on a block list")
	case d.Flags&rule.FallbackClosed != 0:
		s = status.New(codes.Unavailable, "the rate limit could not be checked")
	case d.RetryAfter == slidegate.Never:
		s = status.New(codes.ResourceExhausted, "the cost is above the quota, and the call will never be admitted")
		h.Set("Grpc-Retry-Pushback-Ms", "-1") // do not retry
	default:
		whole := (d.RetryAfter + time.Millisecond - 1) / time.Millisecond // rounded up, so that no client is too early
		h.Set("Grpc-Retry-Pushback-Ms", strconv.FormatInt(int64(whole), 10))
		if full, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}); err == nil {
			s = full
		}
	}
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(s.Code())))
	h.Set("Grpc-Message", s.Message())
	if details, err := proto.Marshal(s.Proto()); err == nil && len(s.Details()) > 0 {
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	}
	w.WriteHeader(http.StatusOK)
}
