package clientip

import (
	"fmt"
	"net/netip"
)

// The prefix lengths of the zero Grouping: one IPv4 address, and a /64, the smallest network that an IPv6 client has.
const (
	DefaultV4 = 32
	DefaultV6 = 64
)

// Grouping is how many leading bits of an address distinguish clients: addresses that share them are one client. The zero
// value is ready to use: it groups IPv4 addresses individually, and IPv6 addresses by /64. It is a plain value and safe to
// share.
//
// An IPv6 address that embeds an IPv4 address counts as that address, since both belong to the same client. This applies to
// addresses of NAT64 (64:ff9b::/96, but not the local prefixes of 64:ff9b:1::/48, whose form the network chooses), of
// stateless translation (::ffff:0:0:0/96), of 6to4 (2002::/16) and of Teredo (2001::/32). Otherwise all clients behind a
// NAT64 would be one, and a 6to4 client would have 65,536 groups to choose from.
type Grouping struct {
	V4 int // 1 to 32; 0 means DefaultV4
	V6 int // 1 to 128; 0 means DefaultV6
	// KeepEmbedded treats the addresses of NAT64, translation, 6to4 and Teredo as IPv6.
	KeepEmbedded bool
}

// Check returns nil if g is valid, and otherwise an error that names the field and the fix.
func (g Grouping) Check() error {
	if g.V4 < 0 || g.V4 > 32 {
		return fmt.Errorf("clientip: V4: must be a prefix length of 1 to 32, or 0 for %d, not %d", DefaultV4, g.V4)
	}
	if g.V6 < 0 || g.V6 > 128 {
		return fmt.Errorf("clientip: V6: must be a prefix length of 1 to 128, or 0 for %d, not %d", DefaultV6, g.V6)
	}
	return nil
}

// v4 returns the prefix length for IPv4. An invalid length counts as the default.
func (g Grouping) v4() int {
	if g.V4 < 1 || g.V4 > 32 {
		return DefaultV4
	}
	return g.V4
}

// v6 returns the prefix length for IPv6. An invalid length counts as the default.
func (g Grouping) v6() int {
	if g.V6 < 1 || g.V6 > 128 {
		return DefaultV6
	}
	return g.V6
}

// embedded returns the IPv4 address embedded in an IPv6 address, if the address counts as that.
func (g Grouping) embedded(addr *[16]byte) (quad [4]byte, ok bool) {
	if g.KeepEmbedded {
		return quad, false
	}
	switch first := uint32(addr[0])<<24 | uint32(addr[1])<<16 | uint32(addr[2])<<8 | uint32(addr[3]); {
	case first>>16 == 0x2002: // 6to4 (RFC 3056)
		return [4]byte(addr[2:6]), true
	case first == 0x20010000: // Teredo (RFC 4380), which inverts the client's address
		return [4]byte{^addr[12], ^addr[13], ^addr[14], ^addr[15]}, true
	case first == 0x0064ff9b && [8]byte(addr[4:12]) == [8]byte{}: // NAT64 (RFC 6052)
		return [4]byte(addr[12:]), true
	case first == 0 && [8]byte(addr[4:12]) == [8]byte{4: 0xff, 5: 0xff}: // stateless translation (RFC 2765)
		return [4]byte(addr[12:]), true
	}
	return quad, false
}

// Of returns the group of addr. An IPv4-mapped IPv6 address (::ffff:192.0.2.1) belongs to the group of the IPv4 address,
// and a zone makes no difference: both are ways to write an address, and a client that could choose between them would have
// more than one key. The group of the zero Addr is the zero Prefix.
func (g Grouping) Of(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		bytes := addr.As16()
		if quad, ok := g.embedded(&bytes); ok {
			addr = netip.AddrFrom4(quad)
		}
	}
	bits := g.v6()
	if addr.Is4() {
		bits = g.v4()
	}
	group, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // addr is the zero Addr; the length is valid for all others
	}
	return group
}

// Append appends the key of addr's group to dst: the prefix (192.0.2.0/24, 2001:db8:1:2::/64), or the bare address
// (192.0.2.1) if the prefix is as long as the address. Two groups of one Grouping never have the same key. For the zero
// Addr it appends nothing.
func (g Grouping) Append(dst []byte, addr netip.Addr) []byte {
	addr = addr.Unmap()
	switch {
	case addr.Is4():
		return g.append4(dst, addr)
	case addr.Is6():
		return g.append6(dst, addr.As16())
	}
	return dst
}

// append4 is Append for IPv4.
func (g Grouping) append4(dst []byte, addr netip.Addr) []byte {
	group := g.Of(addr)
	if group.IsSingleIP() {
		return addr.AppendTo(dst)
	}
	return group.AppendTo(dst)
}

// append6 is Append for IPv6. It masks the address itself, which is faster than Of.
func (g Grouping) append6(dst []byte, addr [16]byte) []byte {
	if quad, ok := g.embedded(&addr); ok {
		return g.append4(dst, netip.AddrFrom4(quad))
	}
	bits := g.v6()
	if bits == 128 {
		return netip.AddrFrom16(addr).AppendTo(dst)
	}
	addr[bits/8] &= ^byte(0xff >> (bits % 8))
	clear(addr[bits/8+1:])
	return netip.PrefixFrom(netip.AddrFrom16(addr), bits).AppendTo(dst)
}

// AppendText combines Parse and Append: it appends the key of the address in text, and reports whether text is an address.
// If not, it returns dst unchanged. It is for programs that read a million lines per second: an IPv4 address that is its
// own group is copied as soon as it is recognized.
func (g Grouping) AppendText(dst, text []byte) ([]byte, bool) {
	if quad, end, ok := parse4(text); ok {
		switch {
		case !endsAfter4(text[end:]):
			return dst, false
		case g.v4() == 32:
			return append(dst, text[:end]...), true // parse4 accepts only the canonical form of an address, which is its key
		}
		return g.append4(dst, netip.AddrFrom4(quad)), true
	}
	bytes, ok := parseDecorated6(text)
	if !ok {
		return dst, false
	}
	if addr := netip.AddrFrom16(bytes); addr.Is4In6() {
		return g.append4(dst, addr.Unmap()), true
	}
	return g.append6(dst, bytes), true
}

// Key combines Parse and Append for a key given as text: it returns the key of the address in text, so that all ways to
// write an address are one key. Text that is not an address, such as the key of a group, is returned unchanged, with false.
// Key allocates only if it must write the key: not for IPv4 addresses that are their own group, nor for text that is not an
// address.
func (g Grouping) Key(text string) (key string, ok bool) {
	if quad, end, ok := parse4(text); ok {
		switch {
		case !endsAfter4(text[end:]):
			return text, false
		case g.v4() == 32:
			return text[:end], true
		}
		var room [64]byte
		return string(g.append4(room[:0], netip.AddrFrom4(quad))), true
	}
	bytes, ok := parseDecorated6(text)
	if !ok {
		return text, false
	}
	var room [64]byte
	return string(g.Append(room[:0], netip.AddrFrom16(bytes))), true
}
