package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/config/internal/claims"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// JWT configures how the bearer tokens of requests are verified, for keys and plans by claim:NAME. The zero value means that
// the file does not configure it, and has no such keys and plans.
type JWT struct {
	KeysFile   string   // the path of the file of keys
	Keys       []byte   // the content of that file: a JSON Web Key Set, or public keys in PEM
	Algorithms []string // accepted for signatures; empty means all that the keys support
	Audience   string   // that tokens must have; empty means any
	Issuer     string   // that tokens must have; empty means any
	Verified   bool     // the proxy in front has verified the tokens
}

// IsZero reports whether tokens are not configured.
func (j *JWT) IsZero() bool { return j.KeysFile == "" && j.Keys == nil && !j.Verified }

// reader returns the reader of the claims at paths; nil, which finds none, if tokens are not configured, or if the file was read offline and
// its keys were missing.
func (j *JWT) reader(paths []string) (*claims.Reader, error) {
	if !j.Verified && j.Keys == nil {
		return nil, nil
	}
	return claims.New(claims.Options{
		Keys: j.Keys, Algorithms: j.Algorithms, Audience: j.Audience, Issuer: j.Issuer, Verified: j.Verified, Paths: paths,
	})
}

// maxKeys is the maximum size of a file of keys, in bytes.
const maxKeys = 1 << 20

// jwt reads how tokens are verified.
func (r *reader) jwt(e yamlfile.Field) (j JWT) {
	before := len(r.Problems)
	given := jwtTable.in(r, e, "jwt", "jwt: must be a mapping with keys, not %s; write {keys: /etc/slidegate/jwks.json}, say", &j)
	switch {
	case len(r.Problems) > before:
	case j.Verified && len(given) > 1:
		r.Problems.Addf(given["verified"].At, "jwt: verified: true cannot be combined with other fields; leave it out, or leave them out")
	case !j.Verified && !given.has("keys"):
		r.Problems.Addf(e.At, "jwt: must say how tokens are verified; add keys: and the path of a JSON Web Key Set or of public keys in PEM, "+
			"or verified: true if the proxy in front has verified them")
	case j.Keys != nil:
		if _, err := j.reader(nil); err != nil {
			field, why := jwtProblem(err)
			r.Problems.Addf(given[field].ValueAt(), "%s", why)
		}
	}
	return j
}

// jwtProblem returns the field that an error of package claims is about, and the error's text without the package name.
func jwtProblem(err error) (field, text string) {
	text = strings.TrimPrefix(err.Error(), "claims: ")
	field, _, _ = strings.Cut(text, ":")
	return field, text
}

// algorithms reads a list of some of the supported algorithms.
func (r *reader) algorithms(e yamlfile.Field, supported []string) (names []string) {
	for _, item := range r.items(e, "algorithms, such as [RS256]") {
		name, ok := r.Text(item)
		if ok && !slices.Contains(supported, name) {
			r.Problems.Addf(item.At, "algorithms: %w", errtext.Unknown(name, "a supported algorithm", supported))
		}
		names = append(names, name)
	}
	return names
}

// jwtKeys reads the file of keys. It may be missing offline, unless keys are required.
func (r *reader) jwtKeys(j *JWT, e yamlfile.Field) {
	path, ok := r.Text(e)
	if !ok {
		return
	}
	if inside, found := strings.CutPrefix(path, "${"+fileMark); found { // accept the notation of secrets
		path = strings.TrimSuffix(inside, "}")
	}
	j.KeysFile = path
	r.others = append(r.others, path)
	if !filepath.IsAbs(path) {
		r.Problems.Addf(e.ValueAt(), "keys: must be an absolute path, such as /etc/slidegate/jwks.json, not %s", errtext.Quote(path))
		return
	}
	text, err := os.ReadFile(path)
	switch {
	case r.opts.Offline && !r.opts.RequireKeys && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
	case err != nil:
		r.Problems.Addf(e.ValueAt(), "keys: the file %s: %w", errtext.Quote(path), reasonOf(err))
	case len(text) > maxKeys:
		r.Problems.Addf(e.ValueAt(), "keys: the file %s is larger than 1 MiB; is it the right one?", errtext.Quote(path))
	default:
		j.Keys = bytes.Clone(text)
	}
}

// claimUse is a position in a file at which a claim is used.
type claimUse struct {
	at    yamlfile.Position
	field fields.Field
}

// useClaims records the claims that a key or a plan uses.
func (r *reader) useClaims(at yamlfile.Position, used ...fields.Field) {
	for _, field := range used {
		if field.Kind == fields.Claim {
			r.claimUses = append(r.claimUses, claimUse{at, field})
		}
	}
}

// checkClaims reports claims if no file configures how tokens are verified: clients could then send any claim.
func (r *reader) checkClaims(configured bool) {
	for _, use := range r.claimUses {
		if !configured {
			r.Problems.Addf(use.at, "%v: token verification is not configured, so a client could send any claim; add jwt: {keys: /etc/slidegate/jwks.json} "+
				"beside policies, or jwt: {verified: true} if the proxy in front has verified them", use.field)
		}
	}
}

// checkJWT returns an error if a policy uses claims and the file does not configure how they are verified.
func (f *File) checkJWT() error {
	if !f.Service.JWT.IsZero() {
		return nil
	}
	for i := range f.Policies {
		for _, field := range f.Policies[i].identity() {
			if field.Kind == fields.Claim {
				return f.Policies[i].withPolicy(invalid("key", "%v: token verification is not configured; set Service.JWT", field))
			}
		}
	}
	return nil
}

// identity returns the fields that determine the key and the plan of a request.
func (p *Policy) identity() []fields.Field {
	used := p.Key.Fields()
	if len(p.Plans) > 0 {
		used = append(used, p.PlanBy)
	}
	return used
}

// claimPaths returns the paths of the claims that the policies use.
func (f *File) claimPaths() (paths []string) {
	for i := range f.Policies {
		for _, field := range f.Policies[i].identity() {
			if field.Kind == fields.Claim {
				paths = append(paths, field.Name)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// jwt writes how tokens are verified.
func (w *formatter) jwt(j *JWT) {
	if j.IsZero() {
		w.notef("jwt: not given, so keys and plans cannot use claims")
		return
	}
	w.mapping("jwt", func() { jwtTable.show(w, j) })
}
