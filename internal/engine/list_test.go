package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/policy"
)

// TestAddressesAsOneByOne compares the addresses of a list to a linear search.
func TestAddressesAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr := func(label string) netip.Addr {
			if rapid.Bool().Draw(t, label+" is 4") {
				return netip.AddrFrom4([4]byte{10, 0, byte(rapid.IntRange(0, 1).Draw(t, label)), rapid.Byte().Draw(t, label)})
			}
			return netip.AddrFrom16([16]byte{0: 0x20, 14: byte(rapid.IntRange(0, 1).Draw(t, label)), 15: rapid.Byte().Draw(t, label)})
		}
		var prefixes []netip.Prefix
		for range rapid.IntRange(0, 48).Draw(t, "prefixes") {
			at := addr("prefix")
			prefix, err := at.Prefix(rapid.IntRange(at.BitLen()-10, at.BitLen()).Draw(t, "bits"))
			if err != nil {
				t.Fatal(err)
			}
			prefixes = append(prefixes, prefix)
		}
		l, err := newList(policy.List{Addresses: prefixes, Keys: []string{"other"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			client := addr("client")
			want := false
			for _, prefix := range prefixes {
				want = want || prefix.Contains(client)
			}
			found, got := l.findAddress(client)
			if got != want || got && !found.Contains(client) {
				t.Fatalf("%v among %v: got %v %v, want %v", client, prefixes, found, got, want)
			}
		}
	})
}

func TestLongList(t *testing.T) {
	var from policy.List
	for i := range 5000 {
		from.Addresses = append(from.Addresses, netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)))
		from.Keys = append(from.Keys, fmt.Sprintf("user-%d", i))
	}
	l := testkit.Must(newList(from, nil))(t)
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
			t.Errorf("%q from %q: got %q, want %q", c.key, c.addr, got, c.want)
		}
	}
}

// 4-in-6 prefixes of a list match the corresponding IPv4 clients, and an invalid prefix is an error.
func TestUnusualPrefixes(t *testing.T) {
	limits := []slidegate.Limit{named("", 1)}
	limiter := testkit.Must(slidegate.New(newMemory(t)))(t)
	mapped := policy.List{Addresses: []netip.Prefix{netip.MustParsePrefix("::ffff:1.2.3.0/120")}}
	s := testkit.Must(New(limiter, []Spec{{Name: "p", Limits: limits, Block: mapped}}, Options{}))(t)
	for addr, want := range map[string]policy.By{"1.2.3.4": policy.ByBlockList, "::ffff:1.2.3.4": policy.ByBlockList, "1.2.4.4": policy.ByLimits, "2001:db8::1": policy.ByLimits} {
		if by, _, _ := s.Route(Part{Key: "ann", Address: netip.MustParseAddr(addr)}); by != want {
			t.Errorf("%s is decided by %v, want %v", addr, by, want)
		}
	}
	wrong := policy.List{Addresses: []netip.Prefix{{}}}
	for option, policy := range map[string]Spec{
		"block": {Name: "p", Limits: limits, Block: wrong}, "allow": {Name: "p", Limits: limits, Allow: wrong},
	} {
		_, err := New(limiter, []Spec{policy}, Options{})
		var about *Error
		if !errors.As(err, &about) || about.Option != option || about.Policy != "p" {
			t.Errorf("an invalid prefix: New returned %v, want an Error about %s of p", err, option)
		}
	}
}
