package httplimit

import (
	"net/http"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/policy"
)

// Key identifies the client that a request belongs to. Requests with the same key share a quota. A request for which it is
// empty is not exempt, since leaving out a header would then be a way around the limit. It is counted by its address, since
// otherwise one client without the header could use up the quota of all such clients. FirstOf and Policy.ShareEmptyKey are
// alternatives.
//
// The functions of this package return keys that know how they are made, so that overrides, lists and rulings are about
// keys that requests can have: see policy.Override. KeyFunc makes a key of a function. The zero Key stands for one that was not
// given.
type Key = keyform.Key[*http.Request]

// KeyFunc returns the key that a function of the application makes. Overrides, lists and rulings are written as the function
// returns it. If it returns an error, the request is refused with 503, whatever the failure mode is, and the event has the error.
func KeyFunc(of func(*http.Request) (string, error)) Key { return Key{Of: of} }

// ByAddress is the client's address, found and grouped by from. A nil from trusts no proxy: it uses the address of the
// connection, which behind a proxy is the proxy's.
func ByAddress(from *clientip.Source) Key {
	if from == nil {
		from = &clientip.Source{}
	}
	return Key{Of: func(r *http.Request) (string, error) { return from.Key(r), nil }, Name: "address", Form: keyform.Address(from.Grouping()), Always: true}
}

// ByHeader is the value of a header field that clients are trusted to set honestly. A field that is sent more than once counts as
// missing, since servers disagree about which line applies: a client could otherwise be counted by one and served by another. For
// tokens and other secrets, use ByAPIKey: keys are visible to everyone who can read the store.
func ByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	return Key{Name: "header:" + name, Form: keyform.Text, Of: func(r *http.Request) (string, error) {
		if values := r.Header[name]; len(values) == 1 {
			return values[0], nil
		}
		return "", nil
	}}
}

// ByCookie is the value of a cookie, hashed, since it is usually a secret. Like a header, one that is sent more than once counts
// as missing.
func ByCookie(name string) Key {
	return Key{Name: "cookie:" + name, Form: keyform.Secret, Of: func(r *http.Request) (string, error) {
		cookies := r.CookiesNamed(name)
		if len(cookies) != 1 {
			return "", nil
		}
		return policy.HashSecret(cookies[0].Value), nil
	}}
}

// ByPathValue is a named part of the path in a pattern of http.ServeMux: id in /users/{id}. It is set only inside the mux, so
// wrap the route's handler and not the mux.
func ByPathValue(name string) Key {
	return Key{Name: "path:" + name, Form: keyform.Text, Of: func(r *http.Request) (string, error) { return r.PathValue(name), nil }}
}

// ByPath is the path of the request, so that every path has a quota of its own; AllOf(ByAddress(client), ByPath()) counts every client on every
// path. All spellings of a path that routers and servers may treat alike are one key: percent-encoded letters and slashes, //, /./ and /../,
// backslashes, a slash at the end, and ASCII letters in capitals. So pages that differ only in these share a quota. It is {path} of a policy
// file.
//
// A client can invent paths, each with its own quota. Apply another limit without the path too, or count routes instead: wrapped around the
// handler of a route of http.ServeMux, KeyFunc(func(r *http.Request) (string, error) { return r.Pattern, nil }) is its pattern.
func ByPath() Key {
	return Key{Name: "path", Form: keyform.Path, Always: true, Of: func(r *http.Request) (string, error) { return match.CanonicalPath(r.URL), nil }}
}

// ByHandler is a key that the handler gives to Middleware.Respond, such as a user whom it finds in the body; a secret should be hashed, by
// policy.HashSecret. A policy with this key is for Respond alone: Wrap does not apply it.
func ByHandler() Key {
	return Key{Name: "handler", Form: keyform.Text, Given: true, Of: func(*http.Request) (string, error) { return "", nil }}
}

// ByBearerToken is the token of the Authorization header, hashed. It is not validated: a client that invents tokens gets a new
// key with each, so use it behind authentication, or together with a limit by address.
func ByBearerToken() Key {
	header := ByHeader("Authorization")
	return Key{Name: "bearer", Form: keyform.Secret, Of: func(r *http.Request) (string, error) {
		value, _ := header.Of(r) // reading a header does not fail
		return policy.HashSecret(keyform.BearerToken(value)), nil
	}}
}

// ByAPIKey is the value of a header field that contains a secret, hashed. It is not validated either; see ByBearerToken.
func ByAPIKey(header string) Key {
	key := ByHeader(header)
	value := key.Of
	key.Form = keyform.Secret
	key.Of = func(r *http.Request) (string, error) {
		secret, _ := value(r) // reading a header does not fail
		return policy.HashSecret(secret), nil
	}
	return key
}

// Global is one key for all requests.
func Global() Key { return keyform.GlobalKey[*http.Request]() }

// nameOrAddress returns the name that a client gives itself, or its address if the name is empty.
func nameOrAddress(name string, r *http.Request, client *clientip.Source) string {
	if name == "" {
		return keyform.AddressMark + client.Key(r)
	}
	return keyform.EscapeName(name)
}

// AllOf combines several keys: requests share a quota if all of their keys are equal. Different values never collide: "a" and
// "bc" make another key than "ab" and "c". It panics if a key is the zero Key.
//
// An empty part is a part like any other: requests without it share the key if their other parts are equal. To count those by
// address, write AllOf(FirstOf(ByHeader("X-User"), ByAddress(nil)), ByPathValue("id")).
func AllOf(keys ...Key) Key {
	keyform.MustHaveKeys("httplimit: AllOf", keys)
	return keyform.AllKeys(keys)
}

// FirstOf is the first of several keys that is not empty, such as the user, or otherwise the address. The same text from two of
// them makes two keys, since each begins with its name, as in header:X-User:eve; the key of an application's own function is named
// by its place, as in key2:eve. It panics if a key is the zero Key.
func FirstOf(keys ...Key) Key {
	keyform.MustHaveKeys("httplimit: FirstOf", keys)
	return keyform.FirstKey(keys)
}
