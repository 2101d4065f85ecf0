// Package claims reads the claims of the bearer token of a request: those of a JWT whose signature, time, audience and issuer it
// has verified, or that a proxy in front has. A token that does not hold has no claims. Package config makes keys and plans of them.
package claims

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Options say which tokens hold. Keys or Verified is required.
type Options struct {
	// Keys is a JSON Web Key Set, or public keys and certificates in PEM.
	Keys []byte
	// Algorithms are those that tokens may be signed by; empty means all that fit the keys.
	Algorithms []string
	// Audience and Issuer must be those of the token; empty means any.
	Audience, Issuer string
	// Verified says that the proxy that passes requests on has verified their tokens: they are taken as they are.
	Verified bool
}

// Reader reads claims. It is safe for concurrent use. The zero value is not usable; New makes it. A nil Reader finds no claims.
type Reader struct {
	opts       Options
	keys       []key
	algorithms []jose.SignatureAlgorithm

	mu    sync.Mutex
	known map[[sha256.Size]byte]held // tokens that were verified
}

// held is what a verified token says, and for how long it holds.
type held struct {
	said  map[string]any
	until time.Time // zero if it does not end
}

// maxKnown is how many tokens are remembered, so that a client's next request costs no signature. When there are more, all are
// forgotten.
const maxKnown = 4096

// leeway is by how much the clock of the issuer may be off.
const leeway = jwt.DefaultLeeway

// New returns a reader, or an error that says which option is wrong.
func New(opts Options) (*Reader, error) {
	r := &Reader{opts: opts, known: map[[sha256.Size]byte]held{}}
	if opts.Verified {
		if len(opts.Keys) > 0 || len(opts.Algorithms) > 0 || opts.Audience != "" || opts.Issuer != "" {
			return nil, errors.New("claims: verified: nothing is verified here then; leave out keys, algorithms, audience and issuer")
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

// Value returns a claim of the request's bearer token by its path: names within one another, separated by dots; a backslash before
// a dot makes it part of a name. A claim that is a text, a number or a truth value is returned as text. It is empty if there is no
// such claim, or no token that holds.
func (r *Reader) Value(request *http.Request, path string) string {
	if r == nil {
		return ""
	}
	token, ok := bearer(request)
	if !ok {
		return ""
	}
	return textAt(r.claims(token), path)
}

// bearer returns the token of a request. One with several Authorization lines has none: who could say which was verified?
func bearer(request *http.Request) (token string, ok bool) {
	lines := request.Header["Authorization"]
	if len(lines) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(lines[0], " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// claims returns what a token says; nil if it does not hold.
func (r *Reader) claims(token string) map[string]any {
	id, now := sha256.Sum256([]byte(token)), time.Now()
	r.mu.Lock()
	before, ok := r.known[id]
	r.mu.Unlock()
	if ok && (before.until.IsZero() || now.Before(before.until)) {
		return before.said
	}
	found, err := r.verify(token, now)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[id] = found
	return found.said
}

var errNotHeld = errors.New("claims: the token does not hold")

// verify checks a token.
func (r *Reader) verify(token string, now time.Time) (found held, err error) {
	signed, err := jose.ParseSignedCompact(token, r.algorithms)
	if err != nil {
		return found, err
	}
	if r.opts.Verified {
		found.said, err = decode(signed.UnsafePayloadWithoutVerification())
		return found, err
	}
	payload, ok := r.payload(signed)
	if !ok {
		return found, errNotHeld
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
	found.said, err = decode(payload)
	return found, err
}

// payload returns what a token says if one of the keys has signed it.
func (r *Reader) payload(signed *jose.JSONWebSignature) (payload []byte, ok bool) {
	header := signed.Signatures[0].Protected
	named := slices.ContainsFunc(r.keys, func(k key) bool { return k.id == header.KeyID })
	for i := range r.keys {
		k := &r.keys[i]
		if !k.takes(header.Algorithm) || named && k.id != header.KeyID {
			continue
		}
		if payload, err := signed.Verify(k.key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// decode reads claims.
func decode(payload []byte) (said map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber() // so that an ID is not rounded
	err = d.Decode(&said)
	return said, err
}

// textAt returns the claim at a path as text; empty if there is none.
func textAt(said map[string]any, path string) string {
	for {
		name, rest, more := cutName(path)
		value := said[name]
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
		said, _ = value.(map[string]any)
		path = rest
	}
}

// cutName returns the first name of a path, and what follows it after a dot.
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
