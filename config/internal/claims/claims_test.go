package claims_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/slidegate/slidegate/config/internal/claims"
	"github.com/slidegate/slidegate/internal/testkit"
)

// signer signs tokens.
type signer struct {
	algorithm jose.SignatureAlgorithm
	key       any
	id        string
}

func (s signer) token(t testing.TB, values map[string]any) string {
	t.Helper()
	return s.sign(t, must(json.Marshal(values)))
}

func (s signer) sign(t testing.TB, payload []byte) string {
	t.Helper()
	options := &jose.SignerOptions{}
	if s.id != "" {
		options = options.WithHeader("kid", s.id)
	}
	made, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: s.key}, options)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := made.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

var (
	ec      = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	other   = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	rsaKey  = must(rsa.GenerateKey(rand.Reader, 2048))
	_, edwd = func() (ed25519.PublicKey, ed25519.PrivateKey) {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			panic(err)
		}
		return public, private
	}()
	shared = []byte("0123456789abcdef0123456789abcdef")
)

// set returns a key set of all the keys.
func set(t testing.TB) []byte {
	t.Helper()
	return must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &ec.PublicKey, KeyID: "ec", Use: "sig"}, {Key: &rsaKey.PublicKey, KeyID: "rsa", Algorithm: "RS256"},
		{Key: edwd.Public(), KeyID: "ed"}, {Key: shared, KeyID: "shared"},
		{Key: &other.PublicKey, KeyID: "other", Use: "enc"},
	}}))
}

func pemOf(t testing.TB, key any) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(key))})
}

func request(lines ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header["Authorization"] = lines
	return r
}

func newReader(t testing.TB, opts claims.Options) *claims.Reader {
	t.Helper()
	if opts.Paths == nil {
		opts.Paths = []string{"plan"}
	}
	r, err := claims.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A token that one of the keys has signed is valid; all others have no claims.
func TestSignatures(t *testing.T) {
	payload := map[string]any{"plan": "pro"}
	all := newReader(t, claims.Options{Keys: set(t)})
	pems := newReader(t, claims.Options{Keys: slices.Concat(pemOf(t, &rsaKey.PublicKey), pemOf(t, &ec.PublicKey))})
	strict := newReader(t, claims.Options{Keys: set(t), Algorithms: []string{"ES256"}})
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"plan":"pro"}`)) + "."
	for _, test := range []struct {
		name              string
		token             string
		all, pems, strict bool
	}{
		{"ec", signer{jose.ES256, ec, "ec"}.token(t, payload), true, true, true},
		{"ec without an ID", signer{jose.ES256, ec, ""}.token(t, payload), true, true, true},
		{"ec with an ID that is not known", signer{jose.ES256, ec, "x"}.token(t, payload), true, true, true},
		{"ec with the ID of another", signer{jose.ES256, ec, "rsa"}.token(t, payload), false, true, false},
		{"rsa", signer{jose.RS256, rsaKey, "rsa"}.token(t, payload), true, true, false},
		{"rsa by an algorithm that is not the key's", signer{jose.PS256, rsaKey, "rsa"}.token(t, payload), false, true, false},
		{"ed25519", signer{jose.EdDSA, edwd, "ed"}.token(t, payload), true, false, false},
		{"shared", signer{jose.HS256, shared, "shared"}.token(t, payload), true, false, false},
		{"another key", signer{jose.ES256, other, "ec"}.token(t, payload), false, false, false},
		{"a key for encryption", signer{jose.ES256, other, "other"}.token(t, payload), false, false, false},
		{"the public key as a secret", signer{jose.HS256, pemOf(t, &rsaKey.PublicKey), ""}.token(t, payload), false, false, false},
		{"none", none, false, false, false},
		{"nothing", "", false, false, false},
		{"no token", "pro", false, false, false},
	} {
		for which, check := range map[string]struct {
			reader *claims.Reader
			holds  bool
		}{"all": {all, test.all}, "PEM": {pems, test.pems}, "strict": {strict, test.strict}} {
			want := ""
			if check.holds {
				want = "pro"
			}
			for range 2 { // the second time, from the cache
				if got := check.reader.Value(request("Bearer "+test.token), "plan"); got != want {
					t.Errorf("%s, %s: got claim %q, want %q", test.name, which, got, want)
				}
			}
		}
	}
	good := signer{jose.ES256, ec, "ec"}.token(t, payload)
	for _, lines := range [][]string{nil, {"Basic " + good}, {good}, {"Bearer " + good + "x"}, {"Bearer " + good, "Bearer " + good}} {
		if got := all.Value(request(lines...), "plan"); got != "" {
			t.Errorf("%d lines: got claim %q, want none", len(lines), got)
		}
	}
	if got := all.Value(request("bearer  "+good), "plan"); got != "pro" {
		t.Errorf("bearer in lower case: got claim %q", got)
	}
	var nilReader *claims.Reader
	if got := nilReader.Value(request("Bearer "+good), "plan"); got != "" {
		t.Errorf("a nil Reader: got %q, want none", got)
	}
}

// A key verifies no other algorithm than its own, even if another key does.
func TestAlgorithmOfTheKey(t *testing.T) {
	second := must(rsa.GenerateKey(rand.Reader, 2048))
	r := newReader(t, claims.Options{Keys: must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &rsaKey.PublicKey, KeyID: "first", Algorithm: "RS256"}, {Key: &second.PublicKey, KeyID: "second"},
	}}))})
	payload := map[string]any{"plan": "pro"}
	for want, token := range map[string]string{
		"":    signer{jose.PS256, rsaKey, "first"}.token(t, payload),
		"pro": signer{jose.PS256, second, "second"}.token(t, payload),
	} {
		if got := r.Value(request("Bearer "+token), "plan"); got != want {
			t.Errorf("got claim %q, want %q", got, want)
		}
	}
}

// A token is valid only in its time, for its audience and from its issuer, even if it is cached.
func TestStandardClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(t, claims.Options{Keys: set(t), Audience: "api", Issuer: "https://login.example"})
		token := func(changed map[string]any) string {
			payload := map[string]any{"plan": "pro", "aud": []string{"web", "api"}, "iss": "https://login.example", "exp": time.Now().Add(time.Hour).Unix()}
			for name, value := range changed {
				payload[name] = value
			}
			return "Bearer " + signer{jose.ES256, ec, "ec"}.token(t, payload)
		}
		good := token(nil)
		for name, test := range map[string]struct{ token, want string }{
			"good":             {good, "pro"},
			"another audience": {token(map[string]any{"aud": "web"}), ""},
			"another issuer":   {token(map[string]any{"iss": "https://evil.example"}), ""},
			"expired":          {token(map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}), ""},
			"not yet":          {token(map[string]any{"nbf": time.Now().Add(2 * time.Minute).Unix()}), ""},
			"no time":          {token(map[string]any{"exp": "tomorrow"}), ""},
		} {
			if got := r.Value(request(test.token), "plan"); got != test.want {
				t.Errorf("%s: got claim %q, want %q", name, got, test.want)
			}
		}
		testkit.Pass(time.Hour + 2*time.Minute)
		if got := r.Value(request(good), "plan"); got != "" {
			t.Errorf("after its expiry: got claim %q, want none", got)
		}
	})
}

func TestPaths(t *testing.T) {
	token := signer{jose.ES256, other, ""}.token(t, map[string]any{
		"plan": "pro", "account": map[string]any{"plan": "team", "id": 9007199254740993, "active": true, "paid": false},
		"https://a.example/plan": "url", "list": []string{"x"}, "nothing": nil,
	})
	all := map[string]string{
		"plan": "pro", "account.plan": "team", "account.id": "9007199254740993", "account.active": "true", "account.paid": "false",
		`https://a\.example/plan`: "url", "account": "", "list": "", "list.0": "", "nothing": "", "missing": "", "plan.x": "", "account.plan.x": "",
	}
	r := newReader(t, claims.Options{Verified: true, Paths: slices.Collect(maps.Keys(all))})
	all["account.unnamed"] = ""
	for path, want := range all {
		if got := r.Value(request("Bearer "+token), path); got != want {
			t.Errorf("claim %s: got %q, want %q", path, got, want)
		}
	}
}

// A token is read by the exact names of claims, and one that has a name twice is invalid.
func TestExactNames(t *testing.T) {
	r := newReader(t, claims.Options{Keys: set(t), Audience: "api", Issuer: "https://login.example", Paths: []string{"plan", "a.plan"}})
	const good = `"aud":"api","iss":"https://login.example"`
	for payload, want := range map[string]string{
		`{` + good + `,"plan":"pro"}`:                                                           "pro",
		`{` + good + `,"exp":1,"EXP":9999999999,"plan":"pro"}`:                                  "",
		`{"aud":"api","iss":"https://evil.example","ISS":"https://login.example","plan":"pro"}`: "",
		`{"aud":"web","Aud":"api","iss":"https://login.example","plan":"pro"}`:                  "",
		`{` + good + `,"iss":"https://login.example","plan":"pro"}`:                             "",
		`{` + good + `,"plan":"free","plan":"pro"}`:                                             "",
		`{` + good + `,"plan":"free","pl\u0061n":"pro"}`:                                        "",
		`{` + good + `,"a":{"plan":"x","plan":"y"},"plan":"pro"}`:                               "",
		`{` + good + `,"PLAN":"pro"}`:                                                           "",
		`{` + good + `,"PLAN":"free","plan":"pro"}`:                                             "pro",
		`{` + good + `,"exp":9999999999,"EXP":1,"nbf":1,"NBF":9999999999,"plan":"pro"}`:         "pro",
	} {
		token := signer{jose.ES256, ec, "ec"}.sign(t, []byte(payload))
		if got := r.Value(request("Bearer "+token), "plan"); got != want {
			t.Errorf("%s: got claim %q, want %q", payload, got, want)
		}
	}
}

// What is kept of tokens is bounded in bytes, whatever they contain.
func TestMemory(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	r := newReader(t, claims.Options{Verified: true, Paths: []string{"sub"}})
	fill := func(n int, payload string) {
		for i := range n {
			want := fmt.Sprint(i)
			header, body := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256"}`)), base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, payload, i))
			if got := r.Value(request("Bearer "+header+"."+body+".AAAA"), "sub"); !strings.HasPrefix(got, want) {
				t.Fatalf("got claim %.40q, want it to begin with %q", got, want)
			}
		}
	}
	before := heap()
	fill(40, `{"sub":"%d","x":[`+strings.Repeat("{},", 7300)+`{}]}`)
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("40 tokens of 29 kB with many other claims: got %d bytes, want less than 1 MB", grown)
	}
	fill(1500, `{"sub":"%d`+strings.Repeat("x", 20_000)+`"}`)
	if grown := heap() - before; grown > 20<<20 {
		t.Errorf("1,500 tokens with a claim of 20 kB: got %d bytes, want about 16 MB at most", grown)
	}
	runtime.KeepAlive(r)
}

func TestWrongOptions(t *testing.T) {
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(ec))})
	for want, opts := range map[string]claims.Options{
		"keys: is empty":                                             {},
		"keys: not a JSON Web Key Set":                               {Keys: []byte("{")},
		"keys: has no key for signatures":                            {Keys: []byte(`{"keys":[{"kty":"moon"}]}`)},
		"keys: has no key for signatures; give":                      {Keys: []byte("hello")},
		`keys: contains a block "PRIVATE KEY"`:                       {Keys: private},
		`keys: invalid block "PUBLIC KEY"`:                           {Keys: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})},
		"keys: a shared secret must have at least 32 bytes":          {Keys: must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("short")}}}))},
		"private keys do not belong here":                            {Keys: must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: ec}}}))},
		"the curve P-224 is not supported for tokens":                {Keys: pemOf(t, &must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader)).PublicKey)},
		"algorithms: none of the keys supports RS256":                {Keys: pemOf(t, &ec.PublicKey), Algorithms: []string{"RS256"}},
		"algorithms: none of the keys supports none; they support E": {Keys: pemOf(t, &ec.PublicKey), Algorithms: []string{"none"}},
		"verified: cannot be combined with keys":                     {Keys: set(t), Verified: true},
	} {
		if _, err := claims.New(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New returned %v, want it to contain %s", err, want)
		}
	}
}
