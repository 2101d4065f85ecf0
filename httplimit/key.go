package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/clientip"
)

// Key identifies the client that a request belongs to. Requests with the same key share a quota. A request for which it returns
// "" is not exempt, since leaving out a header would then be a way around the limit. It is counted by its address, since
// otherwise one client without the header could use up the quota of all such clients. FirstOf and Policy.ShareEmptyKey are
// alternatives.
type Key func(*http.Request) string

// ByAddress is the client's address, found and grouped by from. A nil from trusts no proxy: it uses the address of the
// connection, which behind a proxy is the proxy's.
func ByAddress(from *clientip.Source) Key {
	if from == nil {
		from = &clientip.Source{}
	}
	return from.Key
}

// ByHeader is the value of a header field that clients are trusted to set honestly. A field that is sent more than once counts as
// missing, since servers disagree about which line applies: a client could otherwise be counted by one and served by another. For
// tokens and other secrets, use ByAPIKey: keys are visible to everyone who can read the store.
func ByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) string {
		if values := r.Header[name]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
}

// ByCookie is the value of a cookie, hashed, since it is usually a secret. Like a header, one that is sent more than once counts
// as missing.
func ByCookie(name string) Key {
	return func(r *http.Request) string {
		cookies := r.CookiesNamed(name)
		if len(cookies) != 1 {
			return ""
		}
		return hashSecret(cookies[0].Value)
	}
}

// ByPathValue is a named part of the path in a pattern of http.ServeMux: id in /users/{id}. It is set only inside the mux, so
// wrap the route's handler and not the mux.
func ByPathValue(name string) Key {
	return func(r *http.Request) string { return r.PathValue(name) }
}

// ByBearerToken is the token of the Authorization header, hashed. It is not validated: a client that invents tokens gets a new
// key with each, so use it behind authentication, or together with a limit by address.
func ByBearerToken() Key {
	const scheme = "bearer "
	header := ByHeader("Authorization")
	return func(r *http.Request) string {
		value := header(r)
		if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
			return ""
		}
		return hashSecret(strings.TrimSpace(value[len(scheme):]))
	}
}

// ByAPIKey is the value of a header field that contains a secret, hashed. It is not validated either; see ByBearerToken.
func ByAPIKey(header string) Key {
	value := ByHeader(header)
	return func(r *http.Request) string { return hashSecret(value(r)) }
}

// hashSecret returns a key for a secret, from which the secret cannot be recovered. The empty text stays empty.
func hashSecret(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:16])
}

// Global is one key for all requests.
func Global() Key { return global }

func global(*http.Request) string { return "" }

// isGlobal reports whether a key is Global, whose empty key is intended.
func isGlobal(key Key) bool {
	return reflect.ValueOf(key).Pointer() == reflect.ValueOf(global).Pointer()
}

// addressMark precedes the address of a client that is counted by address because it has no name.
const addressMark = "address:"

// nameOrAddress returns the name that a client gives itself, or its address if the name is empty. A name that looks like such
// an address is prefixed with %, so that no client can take the key of another.
func nameOrAddress(name string, r *http.Request, client *clientip.Source) string {
	switch {
	case name == "":
		return addressMark + client.Key(r)
	case name[0] != addressMark[0] && name[0] != '%':
		return name
	case strings.HasPrefix(strings.TrimLeft(name, "%"), addressMark):
		return "%" + name
	}
	return name
}

// AllOf combines several keys: requests share a quota if all of their keys are equal. Different values never collide: "a" and
// "bc" make another key than "ab" and "c". It panics if a key is nil.
//
// An empty part is a part like any other: requests without it share the key if their other parts are equal. To count those by
// address, write AllOf(FirstOf(ByHeader("X-User"), ByAddress(nil)), ByPathValue("id")).
func AllOf(keys ...Key) Key {
	mustHaveKeys("Each", keys)
	return func(r *http.Request) string {
		var b strings.Builder
		for _, key := range keys {
			writePart(&b, key(r))
		}
		return b.String()
	}
}

// FirstOf is the first of several keys that is not empty, such as the user, or otherwise the address. The same text from two of
// them makes two keys. It panics if a key is nil.
func FirstOf(keys ...Key) Key {
	mustHaveKeys("FirstOf", keys)
	return func(r *http.Request) string {
		for i, key := range keys {
			if value := key(r); value != "" {
				return strconv.Itoa(i) + ":" + value
			}
		}
		return ""
	}
}

// mustHaveKeys panics if a key is nil: a panic at the first request would come too late, and would not name the key.
func mustHaveKeys(function string, keys []Key) {
	for i, key := range keys {
		if key == nil {
			panic("httplimit: " + function + ": key " + strconv.Itoa(i+1) + " of " + strconv.Itoa(len(keys)) + " is nil; leave it out, or use ByAddress(nil)")
		}
	}
}

// writePart writes a text so that different lists of texts are never written alike.
func writePart(b *strings.Builder, part string) {
	b.WriteString(strconv.Itoa(len(part)))
	b.WriteByte(':')
	b.WriteString(part)
}
