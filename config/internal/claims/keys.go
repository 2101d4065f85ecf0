package claims

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// key is a key that verifies tokens.
type key struct {
	id         string // empty if it has none
	key        any
	algorithms []jose.SignatureAlgorithm // that it supports
}

func (k *key) supports(algorithm string) bool {
	return slices.Contains(k.algorithms, jose.SignatureAlgorithm(algorithm))
}

// Algorithms by kind of key. A key verifies no others, so that a public key is never used as a shared secret.
var (
	rsaAlgorithms    = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
	sharedAlgorithms = []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512}
	curveAlgorithms  = map[string]jose.SignatureAlgorithm{"P-256": jose.ES256, "P-384": jose.ES384, "P-521": jose.ES512}
	allAlgorithms    = slices.Concat(rsaAlgorithms, []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}, sharedAlgorithms)
)

// Algorithms returns the names of the supported algorithms.
func Algorithms() (names []string) {
	for _, one := range allAlgorithms {
		names = append(names, string(one))
	}
	return names
}

// minShared is the minimum length of a shared secret, in bytes (RFC 7518, 3.2).
const minShared = 32

// newKey returns a key, or an error if it is not of a kind that verifies tokens.
func newKey(id string, given any) (k key, err error) {
	k = key{id: id, key: given}
	switch given := given.(type) {
	case *rsa.PublicKey:
		k.algorithms = rsaAlgorithms
	case *ecdsa.PublicKey:
		algorithm, ok := curveAlgorithms[given.Curve.Params().Name]
		if !ok {
			return k, fmt.Errorf("claims: keys: the curve %s is not supported for tokens; use P-256, P-384 or P-521", given.Curve.Params().Name)
		}
		k.algorithms = []jose.SignatureAlgorithm{algorithm}
	case ed25519.PublicKey:
		k.algorithms = []jose.SignatureAlgorithm{jose.EdDSA}
	case []byte:
		if len(given) < minShared {
			return k, fmt.Errorf("claims: keys: a shared secret must have at least %d bytes", minShared)
		}
		k.algorithms = sharedAlgorithms
	default:
		return k, errors.New("claims: keys: must be public keys of RSA, ECDSA or Ed25519, or shared secrets; private keys do not belong here")
	}
	return k, nil
}

// parseKeys reads a key set, or keys in PEM.
func parseKeys(text []byte) (keys []key, err error) {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("claims: keys: is empty; give a JSON Web Key Set, or public keys in PEM")
	case bytes.TrimSpace(text)[0] == '{':
		keys, err = parseSet(text)
	default:
		keys, err = parsePEM(text)
	}
	if err == nil && len(keys) == 0 {
		err = errors.New("claims: keys: has no key for signatures; give a JSON Web Key Set, or public keys in PEM")
	}
	return keys, err
}

// parseSet reads a JSON Web Key Set. Keys of unknown kinds are left out, as RFC 7517 requires in section 5.
func parseSet(text []byte) (keys []key, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("claims: keys: not a JSON Web Key Set: invalid JSON")
	}
	for _, one := range set.Keys {
		var given jose.JSONWebKey
		if given.UnmarshalJSON(one) != nil || given.Use != "" && given.Use != "sig" {
			continue
		}
		k, err := newKey(given.KeyID, given.Key)
		if err != nil {
			return nil, err
		}
		if given.Algorithm != "" {
			k.algorithms = slices.DeleteFunc(slices.Clone(k.algorithms), func(a jose.SignatureAlgorithm) bool { return string(a) != given.Algorithm })
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// parsePEM reads public keys and certificates.
func parsePEM(text []byte) (keys []key, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return keys, nil
		}
		var given any
		switch block.Type {
		case "PUBLIC KEY":
			given, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			given, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var certificate *x509.Certificate
			if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
				given = certificate.PublicKey
			}
		default:
			return nil, fmt.Errorf("claims: keys: contains a block %q; give public keys or certificates", block.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("claims: keys: invalid block %q", block.Type)
		}
		k, err := newKey("", given)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
}

// chosenAlgorithms returns the algorithms that are accepted for signatures: the named ones, each of which a key must support,
// or all that the keys support.
func chosenAlgorithms(keys []key, names []string) (chosen []jose.SignatureAlgorithm, err error) {
	for _, algorithm := range allAlgorithms {
		if slices.ContainsFunc(keys, func(k key) bool { return k.supports(string(algorithm)) }) {
			chosen = append(chosen, algorithm)
		}
	}
	if len(names) == 0 {
		return chosen, nil
	}
	var named []jose.SignatureAlgorithm
	for _, name := range names {
		algorithm := jose.SignatureAlgorithm(name)
		if !slices.Contains(chosen, algorithm) {
			return nil, fmt.Errorf("claims: algorithms: none of the keys supports %s; they support %s", name, joinNames(chosen))
		}
		named = append(named, algorithm)
	}
	return named, nil
}

func joinNames(algorithms []jose.SignatureAlgorithm) string {
	var names []string
	for _, one := range algorithms {
		names = append(names, string(one))
	}
	return strings.Join(names, ", ")
}
