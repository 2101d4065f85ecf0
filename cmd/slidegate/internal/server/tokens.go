package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
)

const (
	minToken    = 16 // bytes; shorter ones can be guessed
	tokenHeader = "X-Slidegate-Token"
	adminTokens = "AdminTokens" // the option's name
)

// tokens is a set of accepted tokens. They are compared by their hashes, in constant time. It is safe for concurrent use.
type tokens struct {
	option  string   // the option of given; the option of file has the suffix File
	given   []string // in addition to the file
	file    string   // empty if there is none
	also    *tokens  // also accepted; may be nil
	current atomic.Pointer[tokenSet]
}

// tokenSet is the tokens as last read.
type tokenSet struct {
	texts []string
	sums  [][sha256.Size]byte
}

func newTokens(option string, given []string, file string, also *tokens) (*tokens, error) {
	t := &tokens{option: option, given: given, file: file, also: also}
	set, err := t.read()
	t.current.Store(set)
	return t, err
}

// read reads the file. A file without tokens is an error, so whether tokens are required never changes.
func (t *tokens) read() (*tokenSet, error) {
	set := &tokenSet{texts: slices.Clone(t.given)}
	if t.file != "" {
		text, err := os.ReadFile(t.file)
		if err != nil {
			return set, invalid(t.option+"File", "%w", err)
		}
		before := len(set.texts)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				set.texts = append(set.texts, line)
			}
		}
		if len(set.texts) == before {
			return set, invalid(t.option+"File", "%s has no tokens; write one per line", t.file)
		}
	}
	for _, token := range set.texts {
		if len(token) < minToken {
			return set, invalid(t.option, "a token has %d bytes; use at least %d", len(token), minToken)
		}
		set.sums = append(set.sums, sha256.Sum256([]byte(token)))
	}
	return set, nil
}

// reload reads the file again. On an error, the tokens that were valid stay valid.
func (t *tokens) reload() (changed bool, err error) {
	set, err := t.read()
	if err != nil {
		return false, err
	}
	previous := t.current.Swap(set)
	return !slices.Equal(previous.sums, set.sums), nil
}

// NeedsToken reports whether clients must send a token.
func (s *Server) NeedsToken() bool { return !s.tokens.empty() }

// empty reports whether there are no tokens, so that none is required.
func (t *tokens) empty() bool { return len(t.current.Load().sums) == 0 }

// kind names these tokens in messages to clients that sent no valid one.
func (t *tokens) kind() string {
	if t.option == adminTokens {
		return "an admin token"
	}
	return "a token"
}

// texts returns the tokens themselves.
func (t *tokens) texts() []string { return t.current.Load().texts }

func (t *tokens) has(token string) bool {
	sum := sha256.Sum256([]byte(token))
	found := 0
	sums := t.current.Load().sums
	for i := range sums {
		found |= subtle.ConstantTimeCompare(sum[:], sums[i][:])
	}
	also := t.also != nil && t.also.has(token) // evaluated in any case, to take constant time
	return found == 1 || also
}

// bearer returns the token of an Authorization header; empty if it has none.
func bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// require passes only requests with a token to next.
func (t *tokens) require(next http.Handler) http.Handler {
	if t.empty() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.has(tokenOf(r)) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="slidegate"`)
			problemjson.Document{Status: http.StatusUnauthorized, Detail: t.kind() + " is required: send Authorization: Bearer TOKEN"}.Send(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tokenOf returns the token of a request; empty if it has none.
func tokenOf(r *http.Request) string {
	if token := r.Header.Get(tokenHeader); token != "" {
		return token
	}
	return bearer(r.Header.Get("Authorization"))
}

// operators returns the tokens of operators, which are the client tokens if there are no admin tokens.
func (s *Server) operators() *tokens {
	if s.admins.empty() {
		return s.tokens
	}
	return s.admins
}

// requireAdmin passes only requests with an admin token to next, if there are admin tokens. If there are none, clients may use the
// operations that it protects.
func (s *Server) requireAdmin(next http.Handler) http.Handler {
	if s.admins.empty() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.admins.has(tokenOf(r)) {
			problemjson.Document{Status: http.StatusForbidden, Detail: "an admin token is required for this: send Authorization: Bearer TOKEN"}.Send(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check is require for gRPC. Health checks need no token.
func (t *tokens) check(ctx context.Context, method string) error {
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
	return status.Error(codes.Unauthenticated, "a token is required: send the metadata authorization: Bearer TOKEN")
}

// interceptors returns options that apply check to all methods of a gRPC server. It returns nil if no token is required, since
// interceptors slow down every request.
func (t *tokens) interceptors() []grpc.ServerOption {
	if t.empty() {
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
