package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rulings"
)

// A client is refused by its key in a block list, an override and a ruling, or New and Add return an
// error that says what to write.
func TestClientsAreNamedAsRequestsHaveThem(t *testing.T) {
	user, team, secret := httplimit.ByHeader("X-User"), httplimit.ByHeader("X-Team"), httplimit.ByAPIKey("X-Api-Key")
	own := httplimit.KeyFunc(func(r *http.Request) (string, error) { return "u/" + r.Header.Get("X-User"), nil })
	const asEve, asLeaked = "X-User: eve; X-Team: red", "X-Api-Key: leaked-key"
	for _, test := range []struct {
		name    string
		key     httplimit.Key
		text    string
		request string // the headers of a client that is refused; 192.0.2.1 is its address
		err     string // what an error says instead
	}{
		{"address", httplimit.Key{}, "192.0.2.1", "", ""},
		{"mapped address", httplimit.ByAddress(nil), "::ffff:192.0.2.1", "", "write 192.0.2.1"},
		{"prefix", httplimit.ByAddress(nil), "192.0.2.0/24", "", ""},
		{"name for an address", httplimit.ByAddress(nil), "eve", "", "must be an address"},
		{"header", user, "eve", asEve, ""},
		{"header, the address of a client without one", user, "address:192.0.2.1", "", ""},
		{"header, the prefix of a client without one", user, "address:192.0.2.0/24", "", ""},
		{"header, an address as a name", user, "%address:192.0.2.1", "X-User: address:192.0.2.1", ""},
		{"API key", secret, "leaked-key", asLeaked, "policy.HashSecret"},
		{"API key, hashed", secret, policy.HashSecret("leaked-key"), asLeaked, ""},
		{"API key, a star", secret, policy.HashSecret("leaked*key"), "X-Api-Key: leaked*key", ""},
		{"bearer token", httplimit.ByBearerToken(), policy.HashSecret("t0ken"), "Authorization: Bearer t0ken", ""},
		{"cookie", httplimit.ByCookie("sid"), policy.HashSecret("s1"), "Cookie: sid=s1", ""},
		{"first of, the first", httplimit.FirstOf(user, httplimit.ByAddress(nil)), "header:X-User:eve", asEve, ""},
		{"first of, no name", httplimit.FirstOf(user, httplimit.ByAddress(nil)), "eve", asEve, `such as "header:X-User:alice"`},
		{"first of, the second", httplimit.FirstOf(user, team), "header:X-Team:red", "X-Team: red", ""},
		{"first of, the address", httplimit.FirstOf(user, httplimit.ByAddress(nil)), "address:192.0.2.1", "", ""},
		{"first of, the prefix", httplimit.FirstOf(user, httplimit.ByAddress(nil)), "address:192.0.2.0/24", "", ""},
		{"first of, the address of a client without any", httplimit.FirstOf(user, team), "address:192.0.2.1", "", ""},
		{"first of, own function", httplimit.FirstOf(team, own), "key2:u/eve", "X-User: eve", ""},
		{"first of, nested", httplimit.FirstOf(team, httplimit.FirstOf(user, httplimit.ByAddress(nil))), "key2:header:X-User:eve", "X-User: eve", ""},
		{"first of, an address as a name", httplimit.FirstOf(user, httplimit.ByAddress(nil)), "header:X-User:address:192.0.2.1", "X-User: address:192.0.2.1", ""},
		{"first of, the secret", httplimit.FirstOf(secret, user), "header:X-Api-Key:" + policy.HashSecret("leaked-key"), asLeaked, ""},
		{"all of, one part", httplimit.AllOf(user, team), "eve", asEve, "each after its length"},
		{"all of", httplimit.AllOf(user, team), "3:eve3:red", asEve, ""},
		{"all of, with a secret", httplimit.AllOf(secret, team), "39:" + policy.HashSecret("leaked-key") + "0:", asLeaked, ""},
		{"own function", own, "u/eve", asEve, ""},
		{"global", httplimit.Global(), "", "", ""},
		{"global, a name", httplimit.Global(), "eve", asEve, "which is empty"},
		{"path", httplimit.ByPathValue("id"), "address:192.0.2.1", "", ""},
	} {
		once := []slidegate.Limit{slidegate.PerMinute(1)}
		for way, given := range map[string]httplimit.Policy{
			"block": {Block: policy.List{Keys: []string{test.text}}}, "override": {Overrides: []policy.Override{{Key: test.text, Limits: once}}},
			"allow": {Allow: policy.List{Keys: []string{test.text}}}, "ruling": {},
		} {
			given.Key = test.key
			quota := int64(100)
			if way == "allow" {
				quota = 1 // only a client on the list gets more
			}
			m, err := newForm(t, given, quota)
			if err == nil && way == "ruling" {
				err = block(t, m, test.text)
			}
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "leaked") || strings.Contains(err.Error(), "eve") {
					t.Errorf("%s, %s: got %v, want an error that says %q and does not contain the key", test.name, way, err, test.err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", test.name, way, err)
				continue
			}
			want := map[string]int{"block": 403, "override": 429, "allow": 200, "ruling": 403}[way]
			statusOf(m, test.request, "192.0.2.1") // the override admits one
			if got := statusOf(m, test.request, "192.0.2.1"); got != want {
				t.Errorf("%s, %s: got status %d, want %d", test.name, way, got, want)
			}
			if other := statusOf(m, "X-User: other; X-Api-Key: other; X-Team: other; Authorization: Bearer other; Cookie: sid=other", "198.51.100.1"); other != 200 && test.name != "global" {
				t.Errorf("%s, %s: another client got status %d", test.name, way, other)
			}
		}
	}
}

// block adds a ruling to a book that the middleware follows.
func block(t *testing.T, m *httplimit.Middleware, text string) error {
	t.Helper()
	book, err := rulings.Open(t.Context(), memstore.NewDefault(), rulings.Options{})
	if err != nil {
		return err
	}
	t.Cleanup(book.Close)
	m.Follow(book)
	_, _, err = book.Add(t.Context(), rulings.Ruling{Key: text, Kind: rulings.Block, Who: "ann"})
	return err
}

// newForm returns a middleware with one policy, whose limits admit 100.
func newForm(t *testing.T, given httplimit.Policy, quota int64) (*httplimit.Middleware, error) {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.PerMinute(quota))
	if err != nil {
		t.Fatal(err)
	}
	return httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{given}})
}

// statusOf sends a request with these headers from an address.
func statusOf(m *httplimit.Middleware, headers, address string) int {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(address), 1).String()
	for _, header := range strings.Split(headers, "; ") {
		if name, value, ok := strings.Cut(header, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w.Code
}

// A * without Pattern is an error, and with it fits the names under any key.
func TestStarsNeedPattern(t *testing.T) {
	once := []slidegate.Limit{slidegate.PerMinute(1)}
	for pattern, key := range map[string]httplimit.Key{
		"team-*": httplimit.ByHeader("X-User"), "header:X-User:team-*": httplimit.FirstOf(httplimit.ByHeader("X-User"), httplimit.ByAddress(nil)),
	} {
		if _, err := newForm(t, httplimit.Policy{Key: key, Overrides: []policy.Override{{Key: pattern, Limits: once}}}, 100); err == nil || !strings.Contains(err.Error(), "Pattern") {
			t.Errorf("got %v, want an error that says Pattern", err)
		}
		m, err := newForm(t, httplimit.Policy{Key: key, Overrides: []policy.Override{{Key: pattern, Pattern: true, Limits: once}}}, 100)
		if err != nil {
			t.Fatal(err)
		}
		if first, second := statusOf(m, "X-User: team-a", "192.0.2.1"), statusOf(m, "X-User: team-a", "192.0.2.1"); first != 200 || second != 429 {
			t.Errorf("got %d and %d, want one admitted", first, second)
		}
		if err := block(t, m, pattern); err != nil {
			t.Fatal(err)
		}
		if got := statusOf(m, "X-User: team-b", "192.0.2.1"); got != 200 {
			t.Errorf("after a ruling about %s: got %d for another key, want 200", pattern, got)
		}
	}
}
