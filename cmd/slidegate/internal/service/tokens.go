package service

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
)

const (
	minToken    = 16 // bytes; shorter ones can be guessed
	tokenHeader = "X-Slidegate-Token"
	adminTokens = "AdminTokens" // the option's name
)

// role is what the owner of a token may do.
type role string

const (
	client   role = ""         // decide
	viewer   role = "viewer"   // look at the admin listener
	operator role = "operator" // everything
)

// identity is the owner of a token. Client tokens have no name.
type identity struct {
	name string
	role role
}

// tokens is a set of accepted tokens. They are compared by their hashes, in constant time. It is safe for concurrent use.
type tokens struct {
	option  string   // the option of given; the option of file has the suffix File
	given   []string // in addition to the file
	file    string   // empty if there is none
	also    *tokens  // operators of these are accepted too; may be nil
	current atomic.Pointer[tokenSet]
}

// tokenSet is the tokens as last read, in the same order.
type tokenSet struct {
	texts  []string
	sums   [][sha256.Size]byte
	owners []identity
}

func newTokens(option string, given []string, file string, also *tokens) (*tokens, error) {
	t := &tokens{option: option, given: given, file: file, also: also}
	set, err := t.read()
	t.current.Store(set)
	return t, err
}

// read reads the file. A file without tokens is an error, so whether tokens are required never changes.
func (t *tokens) read() (*tokenSet, error) {
	set := &tokenSet{}
	for i, line := range t.given {
		if err := set.add(t.option, line); err != nil {
			return set, invalid(t.option, "entry %d: %w", i+1, err)
		}
	}
	if err := t.readFile(set); err != nil {
		return set, err
	}
	// Without operators, other listeners would not know that client tokens are not theirs.
	if t.option == adminTokens && len(set.owners) > 0 && !slices.ContainsFunc(set.owners, func(o identity) bool { return o.role == operator }) {
		return set, invalid(t.option, "no token has the role operator; give one")
	}
	return set, nil
}

// readFile adds the tokens of the file, if there is one.
func (t *tokens) readFile(set *tokenSet) error {
	if t.file == "" {
		return nil
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return invalid(t.option+"File", "%w", err)
	}
	before, number := len(set.texts), 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := set.add(t.option, line); err != nil {
			return invalid(t.option+"File", "%s: line %d: %w", t.file, number, err)
		}
	}
	if len(set.texts) == before {
		return invalid(t.option+"File", "%s has no tokens; write one per line", t.file)
	}
	return nil
}

// add adds a token: itself for clients, NAME:ROLE:TOKEN for operators. Errors contain nothing of it.
func (s *tokenSet) add(option, line string) error {
	owner, token := identity{role: client}, line
	if option == adminTokens {
		parts := strings.SplitN(line, ":", 3)
		switch {
		case len(parts) < 3 || parts[0] == "" || strings.ContainsFunc(parts[0], func(r rune) bool { return r <= ' ' || r > '~' }):
			return errors.New("must be NAME:ROLE:TOKEN, such as ann:operator:TOKEN; the name has no spaces")
		case role(parts[1]) != viewer && role(parts[1]) != operator:
			return errors.New("the role, after the first colon, must be viewer or operator")
		}
		owner, token = identity{parts[0], role(parts[1])}, parts[2]
	}
	sum := sha256.Sum256([]byte(token))
	switch i := slices.Index(s.sums, sum); {
	case len(token) < minToken:
		return fmt.Errorf("the token has %d bytes; use at least %d", len(token), minToken)
	case i >= 0 && s.owners[i] != owner:
		return errors.New("the token is also that of another name or role; give each its own")
	}
	s.texts, s.sums, s.owners = append(s.texts, token), append(s.sums, sum), append(s.owners, owner)
	return nil
}

// reload reads the file again. On an error, the tokens that were valid stay valid.
func (t *tokens) reload() (changed bool, err error) {
	set, err := t.read()
	if err != nil {
		return false, err
	}
	previous := t.current.Swap(set)
	return !slices.Equal(previous.sums, set.sums) || !slices.Equal(previous.owners, set.owners), nil
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

// missing returns what is wrong with a token that is not one of these, or with a request without one.
func (t *tokens) missing(token string) string {
	if token == "" {
		return t.kind() + " is required: send Authorization: Bearer TOKEN"
	}
	if parts := strings.SplitN(token, ":", 3); len(parts) == 3 && (role(parts[1]) == viewer || role(parts[1]) == operator) {
		return "this is the line of a token, with its name and its role; send only the token, which follows the second colon"
	}
	return "the token is not valid here; " + t.kind() + " is required"
}

// texts returns the tokens themselves, without those of viewers, which only the admin listener accepts.
func (t *tokens) texts() (all []string) {
	set := t.current.Load()
	for i, text := range set.texts {
		if set.owners[i].role != viewer {
			all = append(all, text)
		}
	}
	return all
}

// find returns the owner of a token, and whether there is one.
func (t *tokens) find(token string) (owner identity, ok bool) {
	return t.owner(sha256.Sum256([]byte(token)))
}

// owner is find by the hash of a token.
func (t *tokens) owner(sum [sha256.Size]byte) (owner identity, ok bool) {
	set := t.current.Load()
	for i := range set.sums {
		if subtle.ConstantTimeCompare(sum[:], set.sums[i][:]) == 1 {
			owner, ok = set.owners[i], true
		}
	}
	if t.also != nil {
		if other, known := t.also.owner(sum); known && !ok { // compared in any case, to take constant time
			return other, true
		}
	}
	return owner, ok
}

// has reports whether a token is accepted from clients.
func (t *tokens) has(token string) bool {
	owner, ok := t.find(token)
	return ok && owner.role != viewer
}

// bearer returns the token of an Authorization header; empty if it has none.
func bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// require passes only requests with a token to next, and tells it the token's owner. The token of a viewer is accepted only for
// requests that look.
func (t *tokens) require(looks func(*http.Request) bool, next http.Handler) http.Handler {
	if t.empty() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		owner, ok := t.find(tokenOf(r))
		switch {
		case !ok:
			w.Header().Set("WWW-Authenticate", `Bearer realm="slidegate"`)
			problemjson.Document{Status: http.StatusUnauthorized, Detail: t.missing(tokenOf(r))}.Send(w)
		case owner.role == viewer && !looks(r):
			forbidden(owner).Send(w)
		default:
			next.ServeHTTP(w, withOwner(r, owner))
		}
	})
}

// withOwner returns a request that who finds the owner of.
func withOwner(r *http.Request, owner identity) *http.Request {
	if owner.name == "" {
		return r // of a client, whose requests are many
	}
	return r.WithContext(context.WithValue(r.Context(), identity{}, owner))
}

// forbidden returns the response to a viewer that tries to change something.
func forbidden(owner identity) problemjson.Document {
	return problemjson.Document{
		Status: http.StatusForbidden,
		Detail: fmt.Sprintf("the token of %q has the role viewer, which may look at the admin listener but change nothing; this requires the role operator", owner.name),
	}
}

// changes reports false: a request to the clients' listener is never only a look.
func changes(*http.Request) bool { return false }

// looks reports whether a request to the admin listener changes nothing.
func looks(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || slices.Contains([]string{"/v1/peek", "/v1/explain/request", "/v1/seen/key"}, r.URL.Path)
}

// who returns who sent a request: the name of its token, or what it claims, marked as such.
func who(ctx context.Context, claimed string) string {
	if owner, _ := ctx.Value(identity{}).(identity); owner.name != "" {
		return owner.name
	}
	return strings.TrimSpace(claimed + " (not verified)")
}

// whoami serves GET /v1/whoami: whose token a request to the admin listener has, and what it may do there.
func whoami(w http.ResponseWriter, r *http.Request) {
	owner, _ := r.Context().Value(identity{}).(identity)
	if owner.role == client { // or there are no tokens; see operators
		owner.role = operator
	}
	problemjson.SendJSON(w, map[string]string{"name": owner.name, "role": string(owner.role)})
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
		switch owner, ok := s.admins.find(tokenOf(r)); {
		case !ok:
			problemjson.Document{Status: http.StatusForbidden, Detail: s.admins.missing(tokenOf(r))}.Send(w)
		case owner.role == viewer:
			forbidden(owner).Send(w)
		default:
			next.ServeHTTP(w, withOwner(r, owner))
		}
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
