package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
)

const (
	minToken    = 16 // bytes; less can be guessed
	tokenHeader = "X-Slidegate-Token"
)

// tokens are what clients may show. They are compared by their hashes, in a time that says nothing about them.
type tokens [][sha256.Size]byte

func newTokens(texts []string) tokens {
	var all tokens
	for _, text := range texts {
		all = append(all, sha256.Sum256([]byte(text)))
	}
	return all
}

func (t tokens) has(token string) bool {
	sum := sha256.Sum256([]byte(token))
	found := 0
	for i := range t {
		found |= subtle.ConstantTimeCompare(sum[:], t[i][:])
	}
	return found == 1
}

// bearer returns the token of an Authorization header, empty if it has none.
func bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// require lets only requests with a token through to next.
func (t tokens) require(next http.Handler) http.Handler {
	if len(t) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get(tokenHeader)
		if token == "" {
			token = bearer(r.Header.Get("Authorization"))
		}
		if !t.has(token) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="slidegate"`)
			problemjson.Document{Status: http.StatusUnauthorized, Detail: "a token is needed: send Authorization: Bearer TOKEN"}.Send(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check is require for gRPC. Whether the service lives, anybody may ask.
func (t tokens) check(ctx context.Context, method string) error {
	if strings.HasPrefix(method, "/grpc.health.v1.Health/") {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for _, token := range md.Get(tokenHeader) {
		if t.has(token) {
			return nil
		}
	}
	for _, authorization := range md.Get("authorization") {
		if t.has(bearer(authorization)) {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "a token is needed: send the metadata authorization: Bearer TOKEN")
}

// interceptors are check for all methods of a gRPC server; none where no token is needed, for they cost every request.
func (t tokens) interceptors() []grpc.ServerOption {
	if len(t) == 0 {
		return nil
	}
	unary := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := t.check(ctx, info.FullMethod); err != nil {
			return nil, err
		}
		return next(ctx, request)
	}
	stream := func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := t.check(stream.Context(), info.FullMethod); err != nil {
			return err
		}
		return next(server, stream)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}
