package grpclimit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"reflect"
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
// The functions of this package return keys that know how they are made, so that overrides, lists and rulings are about
// keys that requests can have: see policy.Override. KeyFunc makes a key of a function. The zero Key stands for one
// that was not given.
type Key = keyform.Key[keyCall]

// keyCall is what a key is made of.
type keyCall struct {
	ctx    context.Context
	method string
}

// KeyFunc returns the key that a function of the application makes. Overrides, lists and rulings are written as the
// function returns it. If it returns an error, the call is refused with UNAVAILABLE, whatever the failure mode is, and the
// event has the error.
func KeyFunc(of func(ctx context.Context, method string) (string, error)) Key {
	return Key{Func: reflect.ValueOf(of).Pointer(), Of: func(c keyCall) (string, error) { return of(c.ctx, c.method) }}
}

// ByAddress returns the client's address without its port, grouped, as found by from; where from reads a header, it
// reads the metadata of that name. A nil from trusts no proxy: the key is the address of the connection, which behind a
// proxy is the proxy's.
func ByAddress(from *clientip.Source) Key {
	key := Key{Of: peerAddress, Name: "address", Form: keyform.Address(from.Grouping()), Always: true}
	if from == nil {
		return key
	}
	header := strings.ToLower(from.Header())
	key.Of = func(c keyCall) (string, error) {
		text := ""
		if addr := peerAddr(c.ctx); addr != nil {
			text = addr.String()
		}
		var lines []string
		if header != "" {
			lines = metadata.ValueFromIncomingContext(c.ctx, header)
		}
		return from.KeyOf(text, lines), nil
	}
	return key
}

// peerAddress is ByAddress(nil). It uses the address directly: formatting and parsing it would be most of the cost of
// an admitted call.
func peerAddress(c keyCall) (string, error) {
	var ip net.IP
	switch addr := peerAddr(c.ctx).(type) {
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
	return Key{Name: "metadata:" + name, Form: keyform.Text, Of: func(c keyCall) (string, error) {
		if values := metadata.ValueFromIncomingContext(c.ctx, name); len(values) == 1 {
			return values[0], nil
		}
		return "", nil
	}}
}

// ByBearerToken returns the token of the authorization metadata, hashed. It is not validated: a client that invents
// tokens gets a new key with each, so use it behind authentication, or together with a limit by address. The hash is the
// same as in httplimit, so that a service with both can share a quota between them.
func ByBearerToken() Key {
	authorization := ByMetadata("authorization")
	return Key{Name: "bearer", Form: keyform.Secret, Of: func(c keyCall) (string, error) {
		value, _ := authorization.Of(c) // reading metadata does not fail
		return policy.HashSecret(keyform.BearerToken(value)), nil
	}}
}

// ByAPIKey returns the value of a metadata field that holds a secret, hashed. Like the token of ByBearerToken, it is
// not validated.
func ByAPIKey(name string) Key {
	key := ByMetadata(name)
	value := key.Of
	key.Form = keyform.Secret
	key.Of = func(c keyCall) (string, error) {
		secret, _ := value(c) // reading metadata does not fail
		return policy.HashSecret(secret), nil
	}
	return key
}

// ByMethod returns the full name of the method. With AllOf, every caller has a quota per method.
func ByMethod() Key {
	return Key{Name: "method", Form: methodForm{}, Always: true, Of: func(c keyCall) (string, error) { return c.method, nil }}
}

// methodForm is the form of the full names of methods.
type methodForm struct{}

func (methodForm) Example() string { return "/package.Service/Method" }

// Read reads a full name or a pattern of them.
func (methodForm) Read(text string, pattern bool) (keyform.Match, error) {
	if !strings.HasPrefix(text, "/") {
		return keyform.Match{}, errors.New("must be the full name of a method")
	}
	return keyform.Text.Read(text, pattern)
}

// Global returns one key for all calls.
func Global() Key { return keyform.GlobalKey[keyCall]() }

// nameOrAddress returns the name that a client gives itself, or its address if the name is empty.
func nameOrAddress(c keyCall, name string, address Key) string {
	if name == "" {
		found, _ := address.Of(c) // it is ByAddress, which does not fail
		return keyform.AddressMark + found
	}
	return keyform.EscapeName(name)
}

// AllOf combines several keys: calls share their quota if they agree in all of them. Different values never collide: "a"
// and "bc" make another key than "ab" and "c". It panics if a key is the zero Key.
//
// An empty part is a part like any other, and calls without it share the key if they agree in the rest. To count those
// by address, write AllOf(FirstOf(ByMetadata("x-user"), ByAddress(nil)), ByMethod()).
func AllOf(keys ...Key) Key {
	keyform.MustHaveKeys("grpclimit: AllOf", keys)
	return keyform.AllKeys(keys)
}

// FirstOf returns the first of several keys that is not empty: the user, or otherwise the address. The same text from
// two of them makes two keys, since each begins with its name, as in metadata:x-user:eve; the key of an application's own
// function is named by its place, as in key2:eve. It panics if a key is the zero Key.
func FirstOf(keys ...Key) Key {
	keyform.MustHaveKeys("grpclimit: FirstOf", keys)
	return keyform.FirstKey(keys)
}
