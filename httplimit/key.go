package httplimit

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
)

// Key identifies the client that a request belongs to. Requests with the same key share a quota. A request for which it is
// empty is not exempt, since leaving out a header would then be a way around the limit. It is counted by its address, since
// otherwise one client without the header could use up the quota of all such clients. FirstOf and Policy.ShareEmptyKey are
// alternatives.
//
// The functions of this package return keys that know how they are made, so that overrides, lists and rulings can be written
// with what a person knows: see policy.Override. KeyFunc makes a key of a function. The zero Key stands for one that was not
// given.
type Key struct {
	of           func(*http.Request) (string, error)
	name         string         // as in header:X-User; empty if it has none
	form         keyform.Form   // nil if an application makes the key
	alternatives []keyform.Part // of a FirstOf
	shared       bool           // an empty key is used as it is
	always       bool           // it is never empty
}

// KeyFunc returns the key that a function of the application makes. Overrides, lists and rulings are written as the function
// returns it. If it returns an error, the request is refused with 503, whatever the failure mode is, and the event has the error.
func KeyFunc(of func(*http.Request) (string, error)) Key { return Key{of: of} }

// WithForm returns the key with a form, for packages that make keys of their own. The key is used as it is, also if it is
// empty.
func (k Key) WithForm(form keyform.Form) Key { return Key{of: k.of, form: form, shared: true} }

// IsZero reports whether k is the zero value, which is no key.
func (k Key) IsZero() bool { return k.of == nil }

// Of returns the key of a request. Only keys made by KeyFunc return errors.
func (k Key) Of(r *http.Request) (string, error) { return k.of(r) }

// ByAddress is the client's address, found and grouped by from. A nil from trusts no proxy: it uses the address of the
// connection, which behind a proxy is the proxy's.
func ByAddress(from *clientip.Source) Key {
	if from == nil {
		from = &clientip.Source{}
	}
	return Key{of: func(r *http.Request) (string, error) { return from.Key(r), nil }, name: "address", form: keyform.Address(from.Grouping()), always: true}
}

// ByHeader is the value of a header field that clients are trusted to set honestly. A field that is sent more than once counts as
// missing, since servers disagree about which line applies: a client could otherwise be counted by one and served by another. For
// tokens and other secrets, use ByAPIKey: keys are visible to everyone who can read the store.
func ByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	return Key{name: "header:" + name, form: keyform.Text, of: func(r *http.Request) (string, error) {
		if values := r.Header[name]; len(values) == 1 {
			return values[0], nil
		}
		return "", nil
	}}
}

// ByCookie is the value of a cookie, hashed, since it is usually a secret. Like a header, one that is sent more than once counts
// as missing.
func ByCookie(name string) Key {
	return Key{name: "cookie:" + name, form: keyform.Secret, of: func(r *http.Request) (string, error) {
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
	return Key{name: "path:" + name, form: keyform.Text, of: func(r *http.Request) (string, error) { return r.PathValue(name), nil }}
}

// ByBearerToken is the token of the Authorization header, hashed. It is not validated: a client that invents tokens gets a new
// key with each, so use it behind authentication, or together with a limit by address.
func ByBearerToken() Key {
	const scheme = "bearer "
	header := ByHeader("Authorization")
	return Key{name: "bearer", form: keyform.Secret, of: func(r *http.Request) (string, error) {
		value, _ := header.of(r) // ByHeader returns no error
		if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
			return "", nil
		}
		return policy.HashSecret(strings.TrimSpace(value[len(scheme):])), nil
	}}
}

// ByAPIKey is the value of a header field that contains a secret, hashed. It is not validated either; see ByBearerToken.
func ByAPIKey(header string) Key {
	key := ByHeader(header)
	value := key.of
	key.form = keyform.Secret
	key.of = func(r *http.Request) (string, error) {
		secret, _ := value(r) // reading a header does not fail
		return policy.HashSecret(secret), nil
	}
	return key
}

// Global is one key for all requests.
func Global() Key {
	return Key{form: keyform.Global, shared: true, of: func(*http.Request) (string, error) { return "", nil }}
}

// addressMark precedes the address of a client that is counted by address because it has no name.
const addressMark = "address:"

// nameOrAddress returns the name that a client gives itself, or its address if the name is empty.
func nameOrAddress(name string, r *http.Request, client *clientip.Source) string {
	if name == "" {
		return addressMark + client.Key(r)
	}
	return escapeName(name)
}

// escapeName returns the key of a name. A name that looks like the address of a client without a name is prefixed with %, so
// that no client can take the key of another.
func escapeName(name string) string {
	switch {
	case name == "" || name[0] != addressMark[0] && name[0] != '%':
		return name
	case strings.HasPrefix(strings.TrimLeft(name, "%"), addressMark):
		return "%" + name
	}
	return name
}

// part returns the key as a part of another.
func (k Key) part() keyform.Part { return keyform.Part{Name: k.name, Form: k.form} }

// formOr returns the form of a key whose empty value is replaced by an address.
func (k Key) formOr(client *clientip.Source) keyform.Form {
	alternatives := k.alternatives
	if alternatives == nil {
		own := k.part()
		own.Escape = escapeName
		alternatives = []keyform.Part{own}
	}
	address := keyform.Part{Name: "address", Mark: addressMark, Form: keyform.Address(client.Grouping())}
	return keyform.FirstOf(append(slices.Clip(alternatives), address)...)
}

// AllOf combines several keys: requests share a quota if all of their keys are equal. Different values never collide: "a" and
// "bc" make another key than "ab" and "c". It panics if a key is the zero Key.
//
// An empty part is a part like any other: requests without it share the key if their other parts are equal. To count those by
// address, write AllOf(FirstOf(ByHeader("X-User"), ByAddress(nil)), ByPathValue("id")).
func AllOf(keys ...Key) Key {
	mustHaveKeys("AllOf", keys)
	parts := make([]keyform.Part, len(keys))
	for i, key := range keys {
		parts[i] = key.part()
	}
	return Key{form: keyform.AllOf(parts...), always: true, of: func(r *http.Request) (string, error) {
		var b strings.Builder
		for _, key := range keys {
			value, err := key.of(r)
			if err != nil {
				return "", err
			}
			writePart(&b, value)
		}
		return b.String(), nil
	}}
}

// FirstOf is the first of several keys that is not empty, such as the user, or otherwise the address. The same text from two of
// them makes two keys, since each begins with its name, as in header:X-User:eve; the key of an application's own function is named
// by its place, as in key2:eve. It panics if a key is the zero Key.
func FirstOf(keys ...Key) Key {
	mustHaveKeys("FirstOf", keys)
	parts := make([]keyform.Part, len(keys))
	always := false
	for i, key := range keys {
		parts[i], always = key.part(), always || key.always
	}
	keyform.NameAlternatives(parts)
	return Key{form: keyform.FirstOf(parts...), alternatives: parts, always: always, of: func(r *http.Request) (string, error) {
		for i, key := range keys {
			value, err := key.of(r)
			if err != nil {
				return "", err
			}
			if value != "" {
				return parts[i].Mark + value, nil
			}
		}
		return "", nil
	}}
}

// mustHaveKeys panics if a key is the zero value: a panic at the first request would come too late, and would not name the key.
func mustHaveKeys(function string, keys []Key) {
	for i, key := range keys {
		if key.IsZero() {
			panic("httplimit: " + function + ": key " + strconv.Itoa(i+1) + " of " + strconv.Itoa(len(keys)) + " is the zero Key; leave it out, or use ByAddress(nil)")
		}
	}
}

// writePart writes a text so that different lists of texts are never written alike.
func writePart(b *strings.Builder, part string) {
	b.WriteString(strconv.Itoa(len(part)))
	b.WriteByte(':')
	b.WriteString(part)
}
