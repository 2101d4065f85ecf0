package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/slidegate/slidegate/policy"
)

const algorithmList = "(want one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA, HS256, HS384, HS512)"

// badJWTFiles are files with an invalid jwt, with their errors, line by line.
var badJWTFiles = []struct{ name, text, want string }{
	{"claims without jwt", "policies:\n  a:\n    limits: [1/s]\n    plan: claim:plan\n    plans: {p: {unlimited: true}}\n    key: \"{claim:sub}\"\n", `
4:11: claim:plan: token verification is not configured, so a client could send any claim; add jwt: {keys: /etc/slidegate/jwks.json} beside policies, or jwt: {verified: true} if the proxy in front has verified them
6:10: claim:sub: token verification is not configured, so a client could send any claim; add jwt: {keys: /etc/slidegate/jwks.json} beside policies, or jwt: {verified: true} if the proxy in front has verified them`},
	{"claims without a name", "jwt: {verified: true}\npolicies:\n  a: {limits: [1/s], plan: \"claim:\", plans: {p: {unlimited: true}}}\n  b: {limits: [1/s], key: \"claim:a..b\"}\n", `
3:28: plan: claim: needs a name, such as claim:plan or claim:account.plan
4:27: key: the path "a..b" has an empty name; separate names by one dot, such as user.id`},
	{"jwt text", "jwt: keys.json\npolicies: {a: {limits: [1/s]}}\n", `1:6: jwt: must be a mapping with keys, not "keys.json"; write {keys: /etc/slidegate/jwks.json}, say`},
	{"jwt empty", "jwt: {audience: api}\npolicies: {a: {limits: [1/s]}}\n",
		`1:1: jwt: must say how tokens are verified; add keys: and the path of a JSON Web Key Set or of public keys in PEM, or verified: true if the proxy in front has verified them`},
	{"jwt verified", "jwt:\n  audience: api\n  verified: true\npolicies: {a: {limits: [1/s]}}\n",
		`3:3: jwt: verified: true cannot be combined with other fields; leave it out, or leave them out`},
	{"jwt fields", "jwt:\n  key: /x\n  algorithms: [RS257, none]\n  verified: perhaps\npolicies: {a: {limits: [1/s]}}\n", `
2:3: "key" is not a field of jwt; did you mean "keys"? (want one of keys, algorithms, audience, issuer, verified)
3:16: algorithms: "RS257" is not a supported algorithm; did you mean "RS256"? ` + algorithmList + `
3:23: algorithms: "none" is not a supported algorithm ` + algorithmList + `
4:13: verified: must be true or false, not "perhaps"`},
	{"jwt keys", "jwt: {keys: jwks.json}\npolicies: {a: {limits: [1/s]}}\n",
		`1:13: keys: must be an absolute path, such as /etc/slidegate/jwks.json, not "jwks.json"`},
	{"jwt no keys", "jwt: {keys: /nowhere/jwks.json}\npolicies: {a: {limits: [1/s]}}\n", `1:13: keys: the file "/nowhere/jwks.json": no such file or directory`},
	{"jwt other keys", "jwt: {keys: /dev/null}\npolicies: {a: {limits: [1/s]}}\n", `1:13: keys: is empty; give a JSON Web Key Set, or public keys in PEM`},
}

// keyFile writes a public key in PEM, and returns a function that signs tokens.
func keyFile(t *testing.T) (path string, sign func(claims string) string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "keys.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func(claims string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign([]byte(claims))
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// A claim of a valid token is the key and the plan of a request; any other token has no claims.
func TestClaims(t *testing.T) {
	path, sign := keyFile(t)
	_, forge := keyFile(t)
	file, err := Parse("test.yaml", fmt.Appendf(nil, `
jwt: {keys: %s, audience: api}
policies:
  api:
    key: ["{claim:sub}", "{header:X-Api-Key}"]
    plan: claim:account.plan
    plans: {pro: {limits: [1000/1m]}, internal: {unlimited: true}}
    limits: [100/1m]
`, path))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	p := opts.Policies[0]
	const claims = `{"sub":"ann","aud":"api","account":{"plan":"internal"}}`
	for _, test := range []struct {
		name, token, key string
		plan             policy.Plan
	}{
		{"signed", sign(claims), "ann", policy.Named("internal")},
		{"forged", forge(claims), "address:192.0.2.1", policy.Plan{}},
		{"for others", sign(strings.Replace(claims, "api", "web", 1)), "address:192.0.2.1", policy.Plan{}},
		{"no plan", sign(`{"sub":"ann","aud":"api"}`), "ann", policy.Plan{}},
		{"none", "", "address:192.0.2.1", policy.Plan{}},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+test.token)
		plan, _ := p.Plan(r)
		if key, _ := p.Key.Of(r); key != test.key || !reflect.DeepEqual(plan, test.plan) {
			t.Errorf("%s: got key %q and plan %+v, want %q and %+v", test.name, key, plan, test.key, test.plan)
		}
	}
	if text := string(Format(file)); !strings.Contains(text, fmt.Sprintf("\njwt:\n  keys: %q\n  # algorithms: all that the keys support\n  audience: \"api\"\n", path)) {
		t.Errorf("got\n%s from Format", text)
	}
}

// A program that makes no decisions needs no keys; one that does needs them.
func TestClaimsOffline(t *testing.T) {
	text := []byte("jwt: {keys: \"${file:/nowhere/jwks.json}\", issuer: x, audience: y, algorithms: [RS256, EdDSA]}\npolicies: {a: {limits: [1/s], key: \"{claim:sub}\"}}\n")
	file, err := parseOffline("test.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	want := JWT{KeysFile: "/nowhere/jwks.json", Issuer: "x", Audience: "y", Algorithms: []string{"RS256", "EdDSA"}}
	again, err := parseOffline("again.yaml", Format(file))
	if err != nil || !reflect.DeepEqual(file.Service.JWT, want) || !reflect.DeepEqual(again.Service.JWT, want) {
		t.Errorf("got %+v, want %+v, also from what Format wrote: %+v, %v", file.Service.JWT, want, again, err)
	}
	if _, err := HTTP(file); err != nil {
		t.Errorf("HTTP returned %v, want a check without the keys to pass", err)
	}
	if _, err := Parse("test.yaml", text); err == nil {
		t.Error("got no error from Parse without the keys")
	}
	unconfigured := &File{Policies: file.Policies}
	if _, err := HTTP(unconfigured); err == nil || !strings.Contains(err.Error(), "token verification is not configured") {
		t.Errorf("HTTP returned %v for claims without jwt", err)
	}
}

// Format writes what no other test reads again.
func TestFormatVerifiedAndPenalty(t *testing.T) {
	file, err := Parse("test.yaml", []byte("jwt: {verified: true}\npolicies: {a: {limits: [1/s], penalty: 90m}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse("again.yaml", Format(file)); err != nil || !again.Service.JWT.Verified || again.Policies[0].Penalty != 90*time.Minute {
		t.Errorf("got %v from\n%s", err, Format(file))
	}
}
