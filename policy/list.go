package policy

import (
	"fmt"
	"net/netip"
)

// list is a compiled allow or deny list. A nil list is empty.
type list struct {
	addresses addressSet
	keys      keyTable[string] // the entries as they were written
}

// newList compiles a list of clients whose keys have this form.
func newList(from List, form Form) (*list, error) {
	if from.IsZero() {
		return nil, nil
	}
	prefixes := make([]netip.Prefix, len(from.Addresses))
	for i, prefix := range from.Addresses {
		if !prefix.IsValid() {
			return nil, fmt.Errorf("address %d is not a valid prefix; use netip.ParsePrefix", i+1)
		}
		prefixes[i] = unmap(prefix)
	}
	l := &list{addresses: newAddressSet(prefixes)}
	for i, key := range from.Keys {
		read, err := ReadKey(form, key, true)
		if err != nil {
			return nil, fmt.Errorf("key %d %w", i+1, err)
		}
		l.keys.add(read.Keys, key)
	}
	return l, nil
}

// mappedBits is the number of bits before the IPv4 address in a 4-in-6 address.
const mappedBits = 96

// unmap returns the IPv4 prefix of a 4-in-6 prefix: clients are looked up by their IPv4 address.
func unmap(prefix netip.Prefix) netip.Prefix {
	if prefix.Addr().Is4In6() && prefix.Bits() >= mappedBits {
		return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mappedBits)
	}
	return prefix
}

// has reports whether a client is on the list.
func (l *list) has(key string, addr netip.Addr) bool {
	if l == nil {
		return false
	}
	if _, ok := l.addresses.find(addr); ok {
		return true
	}
	_, ok := l.keys.find(key)
	return ok
}

// entry returns the entry of the list that matches a client: a prefix, or "key:" and the key or pattern; "" if there is
// none.
func (l *list) entry(key string, addr netip.Addr) string {
	if l == nil {
		return ""
	}
	if prefix, ok := l.addresses.find(addr); ok {
		return prefix.String()
	}
	if word, ok := l.keys.find(key); ok {
		return "key:" + word
	}
	return ""
}

// maxLinear is the number of prefixes up to which comparing them one by one is faster than a lookup.
const maxLinear = 16

// addressSet is a set of prefixes. Up to maxLinear of them are compared one by one; more are looked up, once per
// prefix length. The number of lookups is bounded by the number of lengths, at most 33 for IPv4 and 129 for IPv6 and in
// practice a handful, whatever the number of prefixes.
type addressSet struct {
	few      []netip.Prefix
	many     map[netip.Prefix]struct{}
	lengths4 []int
	lengths6 []int
}

func newAddressSet(prefixes []netip.Prefix) addressSet {
	if len(prefixes) <= maxLinear {
		few := make([]netip.Prefix, len(prefixes))
		for i, prefix := range prefixes {
			few[i] = prefix.Masked()
		}
		return addressSet{few: few}
	}
	s := addressSet{many: make(map[netip.Prefix]struct{}, len(prefixes))}
	var seen4 [33]bool
	var seen6 [129]bool
	for _, prefix := range prefixes {
		s.many[prefix.Masked()] = struct{}{}
		if prefix.Addr().Is4() {
			seen4[prefix.Bits()] = true
		} else {
			seen6[prefix.Bits()] = true
		}
	}
	s.lengths4, s.lengths6 = lengthsOf(seen4[:]), lengthsOf(seen6[:])
	return s
}

// lengthsOf returns the lengths that were seen, longest first: Explain reports the most specific entry.
func lengthsOf(seen []bool) (lengths []int) {
	for bits := len(seen) - 1; bits >= 0; bits-- {
		if seen[bits] {
			lengths = append(lengths, bits)
		}
	}
	return lengths
}

// find returns a prefix that contains addr. No prefix contains the zero Addr.
func (s *addressSet) find(addr netip.Addr) (netip.Prefix, bool) {
	if !addr.IsValid() || len(s.few) == 0 && s.many == nil {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap().WithZone("")
	for _, prefix := range s.few {
		if prefix.Contains(addr) {
			return prefix, true
		}
	}
	lengths := s.lengths6
	if addr.Is4() {
		lengths = s.lengths4
	}
	for _, bits := range lengths {
		prefix, err := addr.Prefix(bits)
		if err != nil {
			continue // impossible: the lengths are those of the address's family
		}
		if _, ok := s.many[prefix]; ok {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}
