package grpclimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/slidegate/slidegate/clientip"
)

// Key identifies the client of a call. Calls with the same key share their quota. A call for which it returns "" is not
// exempt, since otherwise leaving out metadata would be a way around the limit: on a server, its address counts
// instead, because otherwise one client without the metadata could use up the quota of all. FirstOf and
// Policy.ShareEmptyKey are alternatives. On a client, all calls with an empty key share it. The method is the full
// name, such as "/package.Service/Method".
//
// The keys of this package look at the call that is being served. On a client, that is the incoming call for which it
// makes its own call, if the context comes from one.
type Key func(ctx context.Context, method string) string

// ByAddress returns the client's address without its port, grouped, as found by from; where from reads a header, it
// reads the metadata of that name. A nil from trusts no proxy: the key is the address of the connection, which behind a
// proxy is the proxy's.
func ByAddress(from *clientip.Source) Key {
	if from == nil {
		return peerAddress
	}
	header := strings.ToLower(from.Header())
	return func(ctx context.Context, _ string) string {
		text := ""
		if addr := peerAddr(ctx); addr != nil {
			text = addr.String()
		}
		var lines []string
		if header != "" {
			lines = metadata.ValueFromIncomingContext(ctx, header)
		}
		return from.KeyOf(text, lines)
	}
}

// peerAddress is ByAddress(nil). It uses the address directly: formatting and parsing it would be most of the cost of
// an admitted call.
func peerAddress(ctx context.Context, _ string) string {
	var ip net.IP
	switch addr := peerAddr(ctx).(type) {
	case *net.TCPAddr:
		ip = addr.IP
	case *net.UDPAddr:
		ip = addr.IP
	}
	addr, ok := netip.AddrFromSlice(ip)
	if !ok {
		return clientip.NoAddress
	}
	var buffer [64]byte
	return string(clientip.Grouping{}.Append(buffer[:0], addr))
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
	return func(ctx context.Context, _ string) string {
		if values := metadata.ValueFromIncomingContext(ctx, name); len(values) == 1 {
			return values[0]
		}
		return ""
	}
}

// ByBearerToken returns the token of the authorization metadata, hashed. It is not validated: a client that invents
// tokens gets a new key with each, so use it behind authentication, or together with a limit by address.
func ByBearerToken() Key {
	const scheme = "bearer "
	authorization := ByMetadata("authorization")
	return func(ctx context.Context, method string) string {
		value := authorization(ctx, method)
		if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
			return ""
		}
		return hashSecret(strings.TrimSpace(value[len(scheme):]))
	}
}

// ByAPIKey returns the value of a metadata field that holds a secret, hashed. Like the token of ByBearerToken, it is
// not validated.
func ByAPIKey(name string) Key {
	value := ByMetadata(name)
	return func(ctx context.Context, method string) string { return hashSecret(value(ctx, method)) }
}

// hashSecret makes a key of a secret, from which the secret cannot be recovered. The empty string stays empty. It is the
// same key that httplimit makes of the secret, so that a service with both can share a quota between them.
func hashSecret(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:16])
}

// ByMethod returns the full name of the method. With Each, every caller has a quota per method.
func ByMethod() Key { return func(_ context.Context, method string) string { return method } }

// Global returns one key for all calls.
func Global() Key { return global }

func global(context.Context, string) string { return "" }

// isGlobal reports whether a key is Global, whose empty key is intended.
func isGlobal(key Key) bool {
	return reflect.ValueOf(key).Pointer() == reflect.ValueOf(global).Pointer()
}

// addressMark precedes an address that counts because the key is empty. It is the same as in httplimit, so that a
// service with both can share a quota between them.
const addressMark = "address:"

// nameOrAddress returns the name that a client gives itself, or its address if the name is empty. A name that looks like
// such an address gets a % before it, so that no client can have the key of another.
func nameOrAddress(ctx context.Context, method, name string, address Key) string {
	switch {
	case name == "":
		return addressMark + address(ctx, method)
	case name[0] != addressMark[0] && name[0] != '%':
		return name
	case strings.HasPrefix(strings.TrimLeft(name, "%"), addressMark):
		return "%" + name
	}
	return name
}

// AllOf combines several keys: calls share their quota if they agree in all of them. Different values never collide: "a"
// and "bc" make another key than "ab" and "c". It panics if a key is nil.
//
// An empty part is a part like any other, and calls without it share the key if they agree in the rest. To count those
// by address, write AllOf(FirstOf(ByMetadata("x-user"), ByAddress(nil)), ByMethod()).
func AllOf(keys ...Key) Key {
	mustHaveKeys("Each", keys)
	return func(ctx context.Context, method string) string {
		var b strings.Builder
		for _, key := range keys {
			writePart(&b, key(ctx, method))
		}
		return b.String()
	}
}

// FirstOf returns the first of several keys that is not empty: the user, or otherwise the address. The same text from
// two of them makes two keys. It panics if a key is nil.
func FirstOf(keys ...Key) Key {
	mustHaveKeys("FirstOf", keys)
	return func(ctx context.Context, method string) string {
		for i, key := range keys {
			if value := key(ctx, method); value != "" {
				return strconv.Itoa(i) + ":" + value
			}
		}
		return ""
	}
}

// mustHaveKeys panics if a key is nil: a panic at the first call would come too late, and would not name the key.
func mustHaveKeys(function string, keys []Key) {
	for i, key := range keys {
		if key == nil {
			panic("grpclimit: " + function + ": key " + strconv.Itoa(i+1) + " of " + strconv.Itoa(len(keys)) + " is nil; leave it out, or use ByAddress(nil)")
		}
	}
}

// writePart writes a text so that different lists of texts are always written differently.
func writePart(b *strings.Builder, part string) {
	b.WriteString(strconv.Itoa(len(part)))
	b.WriteByte(':')
	b.WriteString(part)
}
