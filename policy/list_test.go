package policy

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// TestAddressSetAsOneByOne holds the set, with few prefixes and with many, to the obvious way to look.
func TestAddressSetAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr := func(label string) netip.Addr {
			if rapid.Bool().Draw(t, label+" is 4") {
				return netip.AddrFrom4([4]byte{10, 0, byte(rapid.IntRange(0, 1).Draw(t, label)), rapid.Byte().Draw(t, label)})
			}
			return netip.AddrFrom16([16]byte{0: 0x20, 14: byte(rapid.IntRange(0, 1).Draw(t, label)), 15: rapid.Byte().Draw(t, label)})
		}
		var prefixes []netip.Prefix
		for range rapid.IntRange(0, 3*mostLinear).Draw(t, "prefixes") {
			at := addr("prefix")
			prefix, err := at.Prefix(rapid.IntRange(at.BitLen()-10, at.BitLen()).Draw(t, "bits"))
			if err != nil {
				t.Fatal(err)
			}
			prefixes = append(prefixes, prefix)
		}
		set := newAddressSet(prefixes)
		for range 20 {
			asked := addr("asked")
			want := false
			for _, prefix := range prefixes {
				want = want || prefix.Contains(asked)
			}
			found, got := set.find(asked)
			if got != want || got && !found.Contains(asked) {
				t.Fatalf("%v among %v: %v %v, want %v", asked, prefixes, found, got, want)
			}
		}
	})
}

func TestLongList(t *testing.T) {
	var from List
	for i := range 5000 {
		from.Addresses = append(from.Addresses, netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)))
		from.Keys = append(from.Keys, fmt.Sprintf("user-%d", i))
	}
	l := newList(from)
	for _, c := range []struct {
		key, addr, want string
	}{
		{"user-4999", "", "key:user-4999"},
		{"user-5000", "", ""},
		{"", "10.19.135.255", "10.19.135.0/24"}, // 19 times 256 and 135 are 4999
		{"", "10.19.136.0", ""},
		{"", "::ffff:10.0.0.1", "10.0.0.0/24"},
		{"", "2001:db8::1", ""},
	} {
		var addr netip.Addr
		if c.addr != "" {
			addr = netip.MustParseAddr(c.addr)
		}
		if got := l.entry(c.key, addr); got != c.want || l.has(c.key, addr) != (c.want != "") {
			t.Errorf("%q from %q: %q, want %q", c.key, c.addr, got, c.want)
		}
	}
	if got := len(l.addresses.lengths4); got != 1 {
		t.Errorf("5000 prefixes of one length take %d look-ups, want 1", got)
	}
}
