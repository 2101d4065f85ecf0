package generate

import (
	"net/netip"
	"testing"
)

func TestKeyNames(t *testing.T) {
	for _, c := range []struct {
		who  who
		keys int64
		want string
	}{
		{who{user, 1}, 1, "user-0001"},
		{who{user, 9_999}, 9_999, "user-9999"},
		{who{user, 1}, 10_000, "user-00001"},
		{who{bot, 4_711}, 14_000, "bot-04711"},
		{who{bot, 1_000_000}, 1_000_000, "bot-1000000"},
		{who{edge, 3}, 20, "edge-03"},
		{who{edge, 3}, 500, "edge-003"},
		{who{scraper, 1}, 1, "scraper-1"},
	} {
		if got := string(c.who.appendKey([]byte("x"), widthOf(c.who.kind, c.keys))); got != "x"+c.want {
			t.Errorf("%v of %d is %q, want x%s", c.who, c.keys, got, c.want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		who  who
		want string
	}{
		{who{user, 1}, "192.0.2.1"},
		{who{user, 254}, "192.0.2.254"},
		{who{bot, 1}, "198.51.100.1"},
		{who{edge, 1}, "203.0.113.101"},
		{who{edge, 154}, "203.0.113.254"},
		{who{scraper, 1}, "203.0.113.1"},
		{who{scraper, 100}, "203.0.113.100"},
	} {
		if got := c.who.address().String(); got != c.want {
			t.Errorf("%v is at %s, want %s", c.who, got, c.want)
		}
	}
}

// No two keys share an address of IPv4 or a /64 of IPv6, and all are for documentation.
func TestAddressesAreDistinct(t *testing.T) {
	documentation := netip.MustParsePrefix("2001:db8::/32")
	seen := map[netip.Prefix]who{}
	for k := range kinds {
		for _, from := range []int64{1, maxKeys / 3, maxKeys - 20_000} {
			for n := from; n <= from+20_000; n++ {
				w := who{k, n}
				a := w.address()
				if a.Is6() && !documentation.Contains(a) {
					t.Fatalf("%v is at %v", w, a)
				}
				network, _ := a.Prefix(min(64, a.BitLen()))
				if other, taken := seen[network]; taken {
					t.Fatalf("%v and %v are both in %v", w, other, network)
				}
				seen[network] = w
			}
		}
	}
	// Multiplying by an odd number is a bijection, and this many numbers are enough for all keys.
	if scatter%2 != 1 || 1<<network64Bits <= maxKeys || kinds > 1<<(32-network64Bits) {
		t.Error("the networks are not enough to be distinct for every key")
	}
}
