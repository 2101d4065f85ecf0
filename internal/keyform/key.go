package keyform

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Key makes the keys of requests of type R, and knows how they are written. The zero value is no key.
type Key[R any] struct {
	Of     func(R) (string, error)
	Name   string // as in header:X-User; empty if it has none
	Form   Form   // nil if an application makes the key
	Shared bool   // an empty key is used as it is
	Always bool   // it is never empty
	Given  bool   // the caller gives it with each request; Of returns nothing

	Func         uintptr // the application's function, if Of calls one
	alternatives []Part  // of a FirstKey
}

// IsZero reports whether k is the zero value, which is no key.
func (k Key[R]) IsZero() bool { return k.Of == nil }

// SameFunc reports whether two keys are made by the same function, such as those of two headers.
func (k Key[R]) SameFunc(other Key[R]) bool {
	return k.Func == other.Func && reflect.ValueOf(k.Of).Pointer() == reflect.ValueOf(other.Of).Pointer()
}

func (k Key[R]) part() Part { return Part{Name: k.Name, Form: k.Form} }

// GlobalKey is one key for all requests.
func GlobalKey[R any]() Key[R] {
	return Key[R]{Form: Global, Shared: true, Of: func(R) (string, error) { return "", nil }}
}

// AllKeys combines several keys: requests share a key if all of theirs are equal. Different values never collide.
func AllKeys[R any](keys []Key[R]) Key[R] {
	parts := make([]Part, len(keys))
	for i, key := range keys {
		parts[i] = key.part()
	}
	return Key[R]{Form: AllOf(parts...), Always: true, Of: func(r R) (string, error) {
		var b strings.Builder
		for _, key := range keys {
			value, err := key.Of(r)
			if err != nil {
				return "", err
			}
			b.WriteString(strconv.Itoa(len(value)))
			b.WriteByte(':')
			b.WriteString(value)
		}
		return b.String(), nil
	}}
}

// FirstKey is the first of several keys that is not empty, after its name.
func FirstKey[R any](keys []Key[R]) Key[R] {
	parts := make([]Part, len(keys))
	always := false
	for i, key := range keys {
		parts[i], always = key.part(), always || key.Always
	}
	NameAlternatives(parts)
	return Key[R]{Form: FirstOf(parts...), alternatives: parts, Always: always, Of: func(r R) (string, error) {
		for i, key := range keys {
			value, err := key.Of(r)
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

// MustHaveKeys panics if a key is the zero value: a panic at the first request would come too late, and would not name the key.
func MustHaveKeys[R any](function string, keys []Key[R]) {
	for i, key := range keys {
		if key.IsZero() {
			panic(function + ": key " + strconv.Itoa(i+1) + " of " + strconv.Itoa(len(keys)) + " is the zero Key; leave it out, or use ByAddress(nil)")
		}
	}
}

// AddressMark precedes the address of a client that is counted by address because it has no name. It is the same for HTTP and
// gRPC, so that a service with both can share a quota between them.
const AddressMark = "address:"

// FormOr returns the form of the key if an empty one is replaced by an address.
func (k Key[R]) FormOr(address Form) Form {
	alternatives := k.alternatives
	if alternatives == nil {
		own := k.part()
		alternatives = []Part{own}
	}
	return FirstOf(append(slices.Clip(alternatives), Part{Name: "address", Mark: AddressMark, Form: address})...)
}

// EscapeName returns the key of a name. A name that looks like the address of a client without a name is prefixed with %, so
// that no client can take the key of another.
func EscapeName(name string) string {
	switch {
	case name == "" || name[0] != AddressMark[0] && name[0] != '%':
		return name
	case strings.HasPrefix(strings.TrimLeft(name, "%"), AddressMark):
		return "%" + name
	}
	return name
}

// BearerToken returns the token of an Authorization header, or "" if it has none.
func BearerToken(authorization string) string {
	const scheme = "bearer "
	if len(authorization) < len(scheme) || !strings.EqualFold(authorization[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimSpace(authorization[len(scheme):])
}
