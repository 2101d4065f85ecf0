package grpclimit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
)

// Key identifies the client of a call. Calls with the same key share their quota. A call for which it returns "" is not
// exempt, since otherwise leaving out metadata would be a way around the limit: on a server, its address counts
// instead, because otherwise one client without the metadata could use up the quota of all. FirstOf and
// Policy.ShareEmptyKey are alternatives. On a client, all calls with an empty key share it. The method is the full
// name, such as "/package.Service/Method".
//
// The keys of this package look at the call that is being served. On a client, that is the incoming call for which it
// makes its own call, if the context comes from one.
//
// The functions of this package return keys that know how they are made, so that overrides, lists and rulings can be
// written with what a person knows: see policy.Override. KeyFunc makes a key of a function. The zero Key stands for one
// that was not given.
type Key struct {
	of           func(ctx context.Context, method string) (string, error)
	name         string         // as in metadata:x-user; empty if it has none
	form         keyform.Form   // nil if an application makes the key
	alternatives []keyform.Part // of a FirstOf
	shared       bool           // an empty key is used as it is
	always       bool           // it is never empty
}

// KeyFunc returns the key that a function of the application makes. Overrides, lists and rulings are written as the
// function returns it. If it returns an error, the call is refused with UNAVAILABLE, whatever the failure mode is, and the
// event has the error.
func KeyFunc(of func(ctx context.Context, method string) (string, error)) Key { return Key{of: of} }

// IsZero reports whether k is the zero value, which is no key.
func (k Key) IsZero() bool { return k.of == nil }

// Of returns the key of a call. Only keys made by KeyFunc return errors.
func (k Key) Of(ctx context.Context, method string) (string, error) { return k.of(ctx, method) }

// ByAddress returns the client's address without its port, grouped, as found by from; where from reads a header, it
// reads the metadata of that name. A nil from trusts no proxy: the key is the address of the connection, which behind a
// proxy is the proxy's.
func ByAddress(from *clientip.Source) Key {
	key := Key{of: peerAddress, name: "address", form: keyform.Address(from.Grouping()), always: true}
	if from == nil {
		return key
	}
	header := strings.ToLower(from.Header())
	key.of = func(ctx context.Context, _ string) (string, error) {
		text := ""
		if addr := peerAddr(ctx); addr != nil {
			text = addr.String()
		}
		var lines []string
		if header != "" {
			lines = metadata.ValueFromIncomingContext(ctx, header)
		}
		return from.KeyOf(text, lines), nil
	}
	return key
}

// peerAddress is ByAddress(nil). It uses the address directly: formatting and parsing it would be most of the cost of
// an admitted call.
func peerAddress(ctx context.Context, _ string) (string, error) {
	var ip net.IP
	switch addr := peerAddr(ctx).(type) {
	case *net.TCPAddr:
		ip = addr.IP
	case *net.UDPAddr:
		ip = addr.IP
	}
	addr, ok := netip.AddrFromSlice(ip)
	if !ok {
		return clientip.NoAddress, nil
	}
	var buffer [64]byte
	return string(clientip.Grouping{}.Append(buffer[:0], addr)), nil
}

// peerAddr returns the address of the other end of the connection, or nil.
func peerAddr(ctx context.Context) net.Addr {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr
	}
	return nil
}

// ByMetadata returns the value of a metadata field that clients are trusted to set honestly. A field with several values
// counts as missing, since a client could otherwise be counted by one and served by another. For tokens and other
// secrets, use ByAPIKey: keys are visible to everyone who can read the store.
func ByMetadata(name string) Key {
	name = strings.ToLower(name) // as on the wire: other spellings are found too, but by a search
	return Key{name: "metadata:" + name, form: keyform.Text, of: func(ctx context.Context, _ string) (string, error) {
		if values := metadata.ValueFromIncomingContext(ctx, name); len(values) == 1 {
			return values[0], nil
		}
		return "", nil
	}}
}

// ByBearerToken returns the token of the authorization metadata, hashed. It is not validated: a client that invents
// tokens gets a new key with each, so use it behind authentication, or together with a limit by address. The hash is the
// same as in httplimit, so that a service with both can share a quota between them.
func ByBearerToken() Key {
	const scheme = "bearer "
	authorization := ByMetadata("authorization").of
	return Key{name: "bearer", form: keyform.Secret, of: func(ctx context.Context, method string) (string, error) {
		value, _ := authorization(ctx, method) // reading metadata does not fail
		if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
			return "", nil
		}
		return policy.HashSecret(strings.TrimSpace(value[len(scheme):])), nil
	}}
}

// ByAPIKey returns the value of a metadata field that holds a secret, hashed. Like the token of ByBearerToken, it is
// not validated.
func ByAPIKey(name string) Key {
	key := ByMetadata(name)
	value := key.of
	key.form = keyform.Secret
	key.of = func(ctx context.Context, method string) (string, error) {
		secret, _ := value(ctx, method) // reading metadata does not fail
		return policy.HashSecret(secret), nil
	}
	return key
}

// ByMethod returns the full name of the method. With AllOf, every caller has a quota per method.
func ByMethod() Key {
	return Key{name: "method", form: methodForm{}, always: true, of: func(_ context.Context, method string) (string, error) { return method, nil }}
}

// methodForm is the form of the full names of methods.
type methodForm struct{}

// Read reads a full name or a pattern of them.
func (methodForm) Read(text string, pattern bool) (keyform.Meaning, error) {
	if !strings.HasPrefix(text, "/") && !(pattern && strings.HasPrefix(text, "*")) {
		return keyform.Meaning{}, errors.New("must be the full name of a method, such as /package.Service/Method")
	}
	return keyform.Text.Read(text, pattern)
}

// Global returns one key for all calls.
func Global() Key {
	return Key{form: keyform.Global, shared: true, of: func(context.Context, string) (string, error) { return "", nil }}
}

// addressMark precedes an address that counts because the key is empty. It is the same as in httplimit, so that a
// service with both can share a quota between them.
const addressMark = "address:"

// nameOrAddress returns the name that a client gives itself, or its address if the name is empty.
func nameOrAddress(ctx context.Context, method, name string, address Key) string {
	if name == "" {
		found, _ := address.of(ctx, method) // it is ByAddress, which does not fail
		return addressMark + found
	}
	return escapeName(name)
}

// escapeName returns the key of a name. A name that looks like the address of a client without a name gets a % before it,
// so that no client can have the key of another.
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

// formOr returns the form of a key whose empty value is replaced by that of address.
func (k Key) formOr(address Key) keyform.Form {
	alternatives := k.alternatives
	if alternatives == nil {
		own := k.part()
		own.Escape = escapeName
		alternatives = []keyform.Part{own}
	}
	other := address.part()
	other.Mark = addressMark
	return keyform.FirstOf(append(slices.Clip(alternatives), other)...)
}

// AllOf combines several keys: calls share their quota if they agree in all of them. Different values never collide: "a"
// and "bc" make another key than "ab" and "c". It panics if a key is the zero Key.
//
// An empty part is a part like any other, and calls without it share the key if they agree in the rest. To count those
// by address, write AllOf(FirstOf(ByMetadata("x-user"), ByAddress(nil)), ByMethod()).
func AllOf(keys ...Key) Key {
	mustHaveKeys("AllOf", keys)
	parts := make([]keyform.Part, len(keys))
	for i, key := range keys {
		parts[i] = key.part()
	}
	return Key{form: keyform.AllOf(parts...), always: true, of: func(ctx context.Context, method string) (string, error) {
		var b strings.Builder
		for _, key := range keys {
			value, err := key.of(ctx, method)
			if err != nil {
				return "", err
			}
			writePart(&b, value)
		}
		return b.String(), nil
	}}
}

// FirstOf returns the first of several keys that is not empty: the user, or otherwise the address. The same text from
// two of them makes two keys, since each begins with its name, as in metadata:x-user:eve; the key of an application's own
// function is named by its place, as in key2:eve. It panics if a key is the zero Key.
func FirstOf(keys ...Key) Key {
	mustHaveKeys("FirstOf", keys)
	parts := make([]keyform.Part, len(keys))
	always := false
	for i, key := range keys {
		parts[i], always = key.part(), always || key.always
	}
	keyform.NameAlternatives(parts)
	return Key{form: keyform.FirstOf(parts...), alternatives: parts, always: always, of: func(ctx context.Context, method string) (string, error) {
		for i, key := range keys {
			value, err := key.of(ctx, method)
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

// mustHaveKeys panics if a key is the zero value: a panic at the first call would come too late, and would not name the key.
func mustHaveKeys(function string, keys []Key) {
	for i, key := range keys {
		if key.IsZero() {
			panic("grpclimit: " + function + ": key " + strconv.Itoa(i+1) + " of " + strconv.Itoa(len(keys)) + " is the zero Key; leave it out, or use ByAddress(nil)")
		}
	}
}

// writePart writes a text so that different lists of texts are always written differently.
func writePart(b *strings.Builder, part string) {
	b.WriteString(strconv.Itoa(len(part)))
	b.WriteByte(':')
	b.WriteString(part)
}
