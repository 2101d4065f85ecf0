package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// proxyWords are the names for prefixes that clientip.ParseProxies accepts.
var proxyWords = []string{"loopback", "private"}

// proxies reads the trusted proxies. An empty list is not nil: it trusts no proxy, whereas a missing list leaves the choice to
// the program.
func (r *reader) proxies(e yamlfile.Field) []netip.Prefix {
	proxies := []netip.Prefix{}
	for _, item := range r.items(e, "addresses, such as [10.0.0.0/8, 192.0.2.1]") {
		text, _, ok := yamlfile.Scalar(item.Value)
		if !ok {
			r.Problems.Addf(item.At, "%s: must be an address, or a prefix such as 10.0.0.0/8, not %s", e.Name, yamlfile.Describe(item.Value))
			continue
		}
		if slices.Contains(proxyWords, text) {
			named, _ := clientip.ParseProxies(text) // proxyWords are always valid
			proxies = append(proxies, named...)
			continue
		}
		prefix, err := parseAddresses(text)
		if err == nil && prefix.Bits() == 0 {
			err = errors.New("every client would be trusted as a proxy; write the addresses of the proxies")
		}
		if err != nil {
			r.Problems.Addf(item.At, "%s: %w", e.Name, err)
			continue
		}
		proxies = append(proxies, prefix)
	}
	return proxies
}

// prefixLength reads how many leading bits of an address identify a client.
func (r *reader) prefixLength(e yamlfile.Field, maxBits int64) int {
	before := len(r.Problems)
	n := r.integer(e)
	if len(r.Problems) == before && (n < 1 || n > maxBits) {
		r.Problems.Addf(e.ValueAt(), "%s: must be a prefix length of 1 to %d, not %d", e.Name, maxBits, n)
	}
	return int(min(max(n, 0), maxBits))
}

// errNotAddress reports a text that is neither an address nor a prefix. It does not show the text, which may be a client's key.
var errNotAddress = errors.New("must be an address, or a prefix such as 10.0.0.0/8")

// parseAddresses reads an address, which is a prefix of full length, or a prefix. IPv4 mapped into IPv6 becomes IPv4, as
// clients' addresses do.
func parseAddresses(text string) (netip.Prefix, error) {
	if before, zone, found := strings.Cut(text, "%"); found {
		if addr, err := netip.ParseAddr(before); err != nil || !addr.Is6() || zone == "" {
			return netip.Prefix{}, errNotAddress
		}
		return netip.Prefix{}, fmt.Errorf("%s has a zone, and zones are not compared; write %s", errtext.Quote(text), before)
	}
	prefix, err := netip.ParsePrefix(text)
	if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
		prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return netip.Prefix{}, errNotAddress
	}
	addr, bits := prefix.Addr(), prefix.Bits()
	if addr.Is4In6() {
		if bits < 96 {
			return netip.Prefix{}, fmt.Errorf("%s is IPv4 mapped into IPv6, whose length must be 96 to 128; write it as IPv4",
				errtext.Quote(text))
		}
		addr, bits = addr.Unmap(), bits-96
	}
	plain := netip.PrefixFrom(addr, bits).Masked()
	if plain.Addr() != addr {
		return netip.Prefix{}, fmt.Errorf("%s has bits beyond its length; write %s", errtext.Quote(text), plain)
	}
	return plain, nil
}

// addressText formats a prefix as parseAddresses reads it: a prefix of full length as an address.
func addressText(prefix netip.Prefix) string {
	if prefix.IsSingleIP() {
		return prefix.Addr().String()
	}
	return prefix.String()
}

// checkGroups checks the prefix lengths of a File that a program made, and reports which one is invalid.
func checkGroups(groups clientip.Grouping) error {
	if err := (clientip.Grouping{V4: groups.V4}).Check(); err != nil {
		return invalid("address_groups.ipv4", "%w", err)
	}
	if err := groups.Check(); err != nil {
		return invalid("address_groups.ipv6", "%w", err)
	}
	return nil
}
