package clientip

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sort"
)

// proxyWords are the words that ParseProxies accepts.
var proxyWords = map[string][]netip.Prefix{
	"loopback": {netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	"private": {
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("fc00::/7"),
		netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
	},
}

// ParseProxies reads a list of proxies to trust, for Options.Trusted. Each text is a prefix (10.0.0.0/8,
// 2001:db8::/32), an address (192.0.2.1, ::1) or one of two words: "loopback" is 127.0.0.0/8 and ::1; "private" is the
// private networks of IPv4 (RFC 1918) and of IPv6 (RFC 4193), and the link-local addresses of both. IPv4-mapped IPv6
// becomes IPv4. The error names the first text that is not one of these.
//
// "private" includes neither loopback nor 100.64.0.0/10: carriers keep their customers behind the latter, and these are
// clients and must not be believed. Write it out if your proxies have such addresses.
func ParseProxies(texts ...string) ([]netip.Prefix, error) {
	var proxies []netip.Prefix
	for _, text := range texts {
		if word, ok := proxyWords[text]; ok {
			proxies = append(proxies, word...)
			continue
		}
		proxy, err := parseProxy(text)
		if err != nil {
			return nil, err
		}
		proxies = append(proxies, proxy)
	}
	return proxies, nil
}

func parseProxy(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
		if addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("clientip: proxy %q has a zone, and zones are not compared; leave it out", text)
		}
		prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("clientip: proxy %q must be an address, a prefix such as 10.0.0.0/8, "+
			"or one of the words loopback and private", text)
	}
	if prefix, err = normalizeProxy(prefix); err != nil {
		return netip.Prefix{}, fmt.Errorf("clientip: proxy %q %w", text, err)
	}
	return prefix, nil
}

// normalizeProxy returns prefix in the form in which it is compared: IPv4 as IPv4, and without the bits beyond its length. The
// error says what is wrong with the prefix, but not which one it is.
func normalizeProxy(prefix netip.Prefix) (netip.Prefix, error) {
	addr, bits := prefix.Addr(), prefix.Bits()
	if !prefix.IsValid() {
		return netip.Prefix{}, errors.New("cannot be compared; use the result of ParseProxies")
	}
	if addr.Is4In6() {
		if bits < 96 {
			return netip.Prefix{}, errors.New("is IPv4 written in IPv6, where the length is 96 to 128; write it in IPv4")
		}
		addr, bits = addr.Unmap(), bits-96
	}
	if bits == 0 {
		return netip.Prefix{}, errors.New("would trust every client as a proxy; name the addresses of the proxies, " +
			"or use Hops if they are not known")
	}
	return netip.PrefixFrom(addr, bits).Masked(), nil
}

// proxySet is a set of addresses: sorted networks that do not overlap. Some proxies publish thousands of them. IPv4
// networks are kept separately, as numbers, because every request looks them up.
type proxySet struct {
	v4 []network4
	v6 []netip.Prefix
}

// network4 is the range of addresses from first to last.
type network4 struct{ first, last uint32 }

func newProxySet(prefixes []netip.Prefix) (set proxySet, err error) {
	all := make([]netip.Prefix, len(prefixes))
	for i, prefix := range prefixes {
		if all[i], err = normalizeProxy(prefix); err != nil {
			return proxySet{}, fmt.Errorf("clientip: Trusted[%d]: %v %w", i, prefix, err)
		}
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var last netip.Prefix
	for _, prefix := range all {
		if last.Contains(prefix.Addr()) {
			continue // the previous network starts no later and overlaps this one, so it contains it
		}
		last = prefix
		if addr := prefix.Addr(); addr.Is4() {
			first := number4(addr.As4())
			set.v4 = append(set.v4, network4{first, first | (1<<(32-prefix.Bits()) - 1)})
		} else {
			set.v6 = append(set.v6, prefix)
		}
	}
	return set, nil
}

func number4(quad [4]byte) uint32 { return binary.BigEndian.Uint32(quad[:]) }

// has reports whether addr is in the set. It must be in the form that Parse returns: IPv4 as IPv4, and without a zone.
func (set *proxySet) has(addr netip.Addr) bool {
	if addr.Is4() {
		return set.has4(addr.As4())
	}
	after := sort.Search(len(set.v6), func(i int) bool { return addr.Less(set.v6[i].Addr()) })
	return after > 0 && set.v6[after-1].Contains(addr)
}

// has4 is has for IPv4. The search is written out because it takes most of the time of an untrusted client's request.
func (set *proxySet) has4(quad [4]byte) bool {
	number := number4(quad)
	low, high := 0, len(set.v4) // networks before low start at number or earlier, those from high on start later
	for low < high {
		middle := int(uint(low+high) >> 1)
		if set.v4[middle].first <= number {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low > 0 && number <= set.v4[low-1].last
}
