package engine

import (
	"fmt"
	"net/netip"

	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
)

// list is a compiled allow or block list. A nil list is empty.
type list struct {
	addresses keyform.Prefixes[netip.Prefix]
	keys      keyform.Table[string] // the entries as they were written
}

// newList compiles a list of clients whose keys have this form.
func newList(from policy.List, form keyform.Form) (*list, error) {
	if from.IsZero() {
		return nil, nil
	}
	l := &list{}
	for i, prefix := range from.Addresses {
		if !prefix.IsValid() {
			return nil, fmt.Errorf("address %d is not a valid prefix; use netip.ParsePrefix", i+1)
		}
		prefix = keyform.Unmap(prefix).Masked()
		l.addresses.Add(prefix, prefix)
	}
	for i, key := range from.Keys {
		read, err := keyform.Read(form, key, true)
		if err != nil {
			return nil, fmt.Errorf("key %d %w", i+1, err)
		}
		l.keys.Add(read, key)
	}
	return l, nil
}

// has reports whether a client is on the list.
func (l *list) has(key string, addr netip.Addr) bool {
	if l == nil {
		return false
	}
	if _, ok := l.findAddress(addr); ok {
		return true
	}
	_, ok := l.keys.Find(key)
	return ok
}

// findAddress returns the longest prefix of the list that contains an address. None contains the zero Addr.
func (l *list) findAddress(addr netip.Addr) (found netip.Prefix, ok bool) {
	if !addr.IsValid() {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap().WithZone("")
	l.addresses.Each(netip.PrefixFrom(addr, addr.BitLen()), func(prefix netip.Prefix, _ int) bool {
		found, ok = prefix, true
		return false
	})
	return found, ok
}

// entry returns the entry of the list that matches a client: a prefix, or "key:" and the key or pattern; "" if there is
// none.
func (l *list) entry(key string, addr netip.Addr) string {
	if l == nil {
		return ""
	}
	if prefix, ok := l.findAddress(addr); ok {
		return prefix.String()
	}
	if word, ok := l.keys.Find(key); ok {
		return "key:" + word
	}
	return ""
}
