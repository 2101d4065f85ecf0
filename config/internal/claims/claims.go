// Package claims reads the claims of the bearer token of a request: a JWT whose signature, time, audience and issuer it has
// verified, or that a proxy in front has verified. An invalid token has no claims. Package config uses claims in keys and
// plans.
package claims

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Options configures which tokens are valid. Keys or Verified is required.
type Options struct {
	// Keys is a JSON Web Key Set, or public keys and certificates in PEM.
	Keys []byte
	// Algorithms are the signature algorithms that are accepted; empty means all that the keys support.
	Algorithms []string
	// Audience and Issuer must be in the token; empty means any.
	Audience, Issuer string
	// Verified means that the proxy in front has verified the tokens: they are not verified again.
	Verified bool
	// Paths are the claims that Value can return. Nothing else of a token is kept.
	Paths []string
}

// Reader reads claims. It is safe for concurrent use. The zero value is not usable; call New. A nil Reader finds no claims.
type Reader struct {
	opts       Options
	keys       []key
	algorithms []jose.SignatureAlgorithm

	mu    sync.Mutex
	known map[[sha256.Size]byte]cachedClaims // verified tokens
	bytes int                                // their size
}

// cachedClaims is what is kept of a verified token.
type cachedClaims struct {
	texts []string  // the claims at Options.Paths, in that order
	until time.Time // when it expires; zero if it does not
}

// The bounds of the cache of verified tokens, which saves a client's next request the check of a signature. When there are more, or
// when they are larger, the cache is cleared.
const (
	maxKnown = 4096
	maxBytes = 16 << 20
)

// bytes returns about how much memory the cache takes for a token.
func (c *cachedClaims) bytes() int {
	n := 128 // an entry of the map, and the slice
	for _, text := range c.texts {
		n += 16 + len(text)
	}
	return n
}

// leeway is the accepted error of the issuer's clock.
const leeway = jwt.DefaultLeeway

// New returns a reader. An error names the option that is wrong.
func New(opts Options) (*Reader, error) {
	r := &Reader{opts: opts, known: map[[sha256.Size]byte]cachedClaims{}}
	if opts.Verified {
		if len(opts.Keys) > 0 || len(opts.Algorithms) > 0 || opts.Audience != "" || opts.Issuer != "" {
			return nil, errors.New("claims: verified: cannot be combined with keys, algorithms, audience and issuer; leave them out")
		}
		r.algorithms = allAlgorithms
		return r, nil
	}
	var err error
	if r.keys, err = parseKeys(opts.Keys); err != nil {
		return nil, err
	}
	r.algorithms, err = chosenAlgorithms(r.keys, opts.Algorithms)
	return r, err
}

// Value returns a claim of the request's bearer token by its path: nested names, separated by dots; a backslash before a dot
// makes it part of a name. A claim that is a string, a number or a boolean is returned as text. It is empty if there is no such
// claim, if it is not among Options.Paths, or if there is no valid token.
func (r *Reader) Value(request *http.Request, path string) string {
	if r == nil {
		return ""
	}
	at := slices.Index(r.opts.Paths, path)
	token, ok := bearer(request)
	if at < 0 || !ok {
		return ""
	}
	if texts := r.claims(token); texts != nil {
		return texts[at]
	}
	return ""
}

// Why returns why Value finds no claim, or "" if it finds it. It contains nothing of the token.
func (r *Reader) Why(request *http.Request, path string) string {
	token, ok := bearer(request)
	switch {
	case r == nil:
		return "tokens are not read"
	case !ok:
		return "the request has no bearer token"
	case r.claims(token) == nil:
		return "the token is not valid: it cannot be read or verified, or it has expired, or is for another audience or from another issuer"
	case r.Value(request, path) == "":
		return "the token has no such claim"
	}
	return ""
}

// bearer returns the token of a request. A request with several Authorization lines has none: it is unclear which one was
// verified.
func bearer(request *http.Request) (token string, ok bool) {
	lines := request.Header["Authorization"]
	if len(lines) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(lines[0], " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// claims returns the claims of a token; nil if it is not valid.
func (r *Reader) claims(token string) []string {
	id, now := sha256.Sum256([]byte(token)), time.Now()
	r.mu.Lock()
	before, ok := r.known[id]
	r.mu.Unlock()
	if ok && (before.until.IsZero() || now.Before(before.until)) {
		return before.texts
	}
	found, err := r.verify(token, now)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := r.known[id]; ok { // it has expired, or another request was faster
		r.bytes -= before.bytes()
		delete(r.known, id)
	}
	if len(r.known) >= maxKnown || r.bytes+found.bytes() > maxBytes {
		clear(r.known)
		r.bytes = 0
	}
	r.known[id] = found
	r.bytes += found.bytes()
	return found.texts
}

var errInvalidToken = errors.New("claims: invalid token")

// verify checks a token. Claims are found by their exact names, and a name that occurs twice makes a token invalid: its issuer and
// this program could otherwise mean different claims. So it is decoded as go-jose does, since encoding/json ignores case and takes the
// last of several.
func (r *Reader) verify(token string, now time.Time) (found cachedClaims, err error) {
	signed, err := jose.ParseSignedCompact(token, r.algorithms)
	if err != nil {
		return found, err
	}
	if r.opts.Verified {
		found.texts, err = r.decode(signed.UnsafePayloadWithoutVerification())
		return found, err
	}
	payload, ok := r.payload(signed)
	if !ok {
		return found, errInvalidToken
	}
	var standard jwt.Claims
	if err := json.Unmarshal(payload, &standard); err != nil {
		return found, err
	}
	expected := jwt.Expected{Issuer: r.opts.Issuer, Time: now}
	if r.opts.Audience != "" {
		expected.AnyAudience = jwt.Audience{r.opts.Audience}
	}
	if err := standard.ValidateWithLeeway(expected, leeway); err != nil {
		return found, err
	}
	if standard.Expiry != nil {
		found.until = standard.Expiry.Time().Add(leeway)
	}
	found.texts, err = r.decode(payload)
	return found, err
}

// payload returns the payload of a token if one of the keys has signed it.
func (r *Reader) payload(signed *jose.JSONWebSignature) (payload []byte, ok bool) {
	header := signed.Signatures[0].Protected
	named := slices.ContainsFunc(r.keys, func(k key) bool { return k.id == header.KeyID })
	for i := range r.keys {
		k := &r.keys[i]
		if !k.supports(header.Algorithm) || named && k.id != header.KeyID {
			continue
		}
		if payload, err := signed.Verify(k.key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// decode returns the claims of a payload at the paths.
func (r *Reader) decode(payload []byte) (texts []string, err error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.SetNumberType(json.UnmarshalJSONNumber) // so that an ID is not rounded
	var claims map[string]any
	if err := d.Decode(&claims); err != nil {
		return nil, err
	}
	texts = make([]string, len(r.opts.Paths))
	for i, path := range r.opts.Paths {
		texts[i] = textAt(claims, path)
	}
	return texts, nil
}

// textAt returns the claim at a path as text; empty if there is none.
func textAt(claims map[string]any, path string) string {
	for {
		name, rest, more := cutName(path)
		value := claims[name]
		if !more {
			switch v := value.(type) {
			case string:
				return v
			case json.Number:
				return v.String()
			case bool:
				if v {
					return "true"
				}
				return "false"
			}
			return ""
		}
		claims, _ = value.(map[string]any)
		path = rest
	}
}

// cutName returns the first name of a path, and the rest after the dot.
func cutName(path string) (name, rest string, more bool) {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '\\' && i+1 < len(path):
			i++
		case path[i] == '.':
			return b.String(), path[i+1:], true
		}
		b.WriteByte(path[i])
	}
	return b.String(), "", false
}
