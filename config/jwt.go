package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/config/claims"
	"github.com/slidegate/slidegate/config/wording"
	"github.com/slidegate/slidegate/config/yamlfile"
)

// JWT is how the bearer tokens of requests are verified, for keys and plans by claim:NAME. The zero value is of a file that does
// not say, which has no such keys and plans.
type JWT struct {
	KeysFile   string   // where the keys are
	Keys       []byte   // what is in that file: a JSON Web Key Set, or public keys in PEM
	Algorithms []string // that tokens may be signed by; empty means all that fit the keys
	Audience   string   // that tokens must be for; empty means any
	Issuer     string   // that they must be of; empty means any
	Verified   bool     // the proxy in front has verified them
}

// IsZero reports whether nothing is said about tokens.
func (j *JWT) IsZero() bool { return j.KeysFile == "" && j.Keys == nil && !j.Verified }

// reader returns what reads claims; nil, which finds none, if nothing is said about tokens, or if the file was read by a program that
// decides about nothing and had no keys.
func (j *JWT) reader() (*claims.Reader, error) {
	if !j.Verified && j.Keys == nil {
		return nil, nil
	}
	return claims.New(claims.Options{
		Keys: j.Keys, Algorithms: j.Algorithms, Audience: j.Audience, Issuer: j.Issuer, Verified: j.Verified,
	})
}

var jwtFields = []string{"keys", "algorithms", "audience", "issuer", "verified"}

// maxKeys is how large a file of keys may be, in bytes.
const maxKeys = 1 << 20

// jwt reads how tokens are verified.
func (r *reader) jwt(e yamlfile.Field) (j JWT) {
	if !yamlfile.IsMapping(e.Value) {
		r.Problems.Addf(e.ValueAt(), "jwt: must be a mapping with keys, not %s; write {keys: /etc/slidegate/jwks.json}, say", yamlfile.NameOf(e.Value))
		return j
	}
	before := len(r.Problems)
	given := map[string]yamlfile.Field{}
	for _, one := range r.mapping(e.Value, "jwt", jwtFields) {
		given[one.Name] = one
		if one.Value != nil {
			r.jwtField(&j, one)
		}
	}
	_, hasKeys := given["keys"]
	switch {
	case len(r.Problems) > before:
	case j.Verified && len(given) > 1:
		r.Problems.Addf(given["verified"].At, "jwt: with verified: true nothing is verified here; leave it out, or leave out all else")
	case !j.Verified && !hasKeys:
		r.Problems.Addf(e.At, "jwt: nothing says how tokens are verified; add keys: and the path of a JSON Web Key Set or of public keys in PEM, "+
			"or verified: true if the proxy in front has verified them")
	case j.Keys != nil:
		if _, err := j.reader(); err != nil {
			field, why := jwtProblem(err)
			r.Problems.Addf(given[field].ValueAt(), "%s", why)
		}
	}
	return j
}

// jwtProblem returns which field an error of package claims is about, and what it says without the name of the package.
func jwtProblem(err error) (field, text string) {
	text = strings.TrimPrefix(err.Error(), "claims: ")
	field, _, _ = strings.Cut(text, ":")
	return field, text
}

func (r *reader) jwtField(j *JWT, e yamlfile.Field) {
	switch e.Name {
	case "keys":
		r.jwtKeys(j, e)
	case "algorithms":
		names := claims.Algorithms()
		for _, item := range r.items(e, "algorithms, such as [RS256]") {
			name, ok := r.Text(item)
			if ok && !slices.Contains(names, name) {
				r.Problems.Addf(item.At, "algorithms: %w", wording.Unknown(name, "an algorithm that is taken", names))
			}
			j.Algorithms = append(j.Algorithms, name)
		}
	case "audience":
		j.Audience, _ = r.Text(e)
	case "issuer":
		j.Issuer, _ = r.Text(e)
	case "verified":
		j.Verified = r.Truth(e)
	}
}

// jwtKeys reads the file of keys. A program that never decides about requests does without it.
func (r *reader) jwtKeys(j *JWT, e yamlfile.Field) {
	path, ok := r.Text(e)
	if !ok {
		return
	}
	if inside, found := strings.CutPrefix(path, "${"+fileMark); found { // as secrets are written
		path = strings.TrimSuffix(inside, "}")
	}
	j.KeysFile = path
	if !filepath.IsAbs(path) {
		r.Problems.Addf(e.ValueAt(), "keys: must be the path of a file that begins with /, such as /etc/slidegate/jwks.json, not %s", wording.Quote(path))
		return
	}
	text, err := os.ReadFile(path)
	switch {
	case r.offline && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
	case err != nil:
		r.Problems.Addf(e.ValueAt(), "keys: the file %s: %w", wording.Quote(path), reasonOf(err))
	case len(text) > maxKeys:
		r.Problems.Addf(e.ValueAt(), "keys: the file %s is larger than 1 MiB; is it the right one?", wording.Quote(path))
	default:
		j.Keys = bytes.Clone(text)
	}
}

// claimed is a place at which a file uses claims.
type claimed struct {
	at    yamlfile.Position
	field Field
}

// useClaims notes which claims a key or a plan uses.
func (r *reader) useClaims(at yamlfile.Position, fields ...Field) {
	for _, field := range fields {
		if field.Kind == FieldClaim {
			r.claimed = append(r.claimed, claimed{at, field})
		}
	}
}

// checkClaims reports claims where no file says how tokens are verified: anybody could write any claim.
func (r *reader) checkClaims(said bool) {
	for _, use := range r.claimed {
		if !said {
			r.Problems.Addf(use.at, "%v: nothing says how tokens are verified, and a client can write any claim into one; add jwt: {keys: /etc/slidegate/jwks.json} "+
				"beside policies, or jwt: {verified: true} if the proxy in front has verified them", use.field)
		}
	}
}

// checkJWT returns an error if a policy has claims and the file does not say how they are verified.
func (f *File) checkJWT() error {
	if !f.Service.JWT.IsZero() {
		return nil
	}
	for i := range f.Policies {
		p := &f.Policies[i]
		fields := p.Key.Fields()
		if len(p.Plans) > 0 {
			fields = append(fields, p.PlanBy)
		}
		if at := slices.IndexFunc(fields, func(field Field) bool { return field.Kind == FieldClaim }); at >= 0 {
			return p.within(invalid("key", "%v: the file does not say how tokens are verified; set Service.JWT", fields[at]))
		}
	}
	return nil
}

// jwtText writes how tokens are verified, in one line.
func jwtText(j *JWT) string {
	if j.Verified {
		return "{verified: true}"
	}
	parts := []string{fmt.Sprintf("keys: %q", j.KeysFile)}
	if len(j.Algorithms) > 0 {
		parts = append(parts, "algorithms: ["+strings.Join(j.Algorithms, ", ")+"]")
	}
	if j.Audience != "" {
		parts = append(parts, fmt.Sprintf("audience: %q", j.Audience))
	}
	if j.Issuer != "" {
		parts = append(parts, fmt.Sprintf("issuer: %q", j.Issuer))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
