package generate

import (
	"net/netip"
	"testing"
)

func TestKeyNames(t *testing.T) {
	for _, c := range []struct {
		keyID keyID
		keys  int64
		want  string
	}{
		{keyID{user, 1}, 1, "user-0001"},
		{keyID{user, 9_999}, 9_999, "user-9999"},
		{keyID{user, 1}, 10_000, "user-00001"},
		{keyID{bot, 4_711}, 14_000, "bot-04711"},
		{keyID{bot, 1_000_000}, 1_000_000, "bot-1000000"},
		{keyID{edge, 3}, 20, "edge-03"},
		{keyID{edge, 3}, 500, "edge-003"},
		{keyID{scraper, 1}, 1, "scraper-1"},
	} {
		if got := string(c.keyID.appendKey([]byte("x"), widthOf(c.keyID.kind, c.keys))); got != "x"+c.want {
			t.Errorf("%v of %d is %q, want x%s", c.keyID, c.keys, got, c.want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		keyID keyID
		want  string
	}{
		{keyID{user, 1}, "192.0.2.1"},
		{keyID{user, 254}, "192.0.2.254"},
		{keyID{bot, 1}, "198.51.100.1"},
		{keyID{edge, 1}, "203.0.113.101"},
		{keyID{edge, 154}, "203.0.113.254"},
		{keyID{scraper, 1}, "203.0.113.1"},
		{keyID{scraper, 100}, "203.0.113.100"},
	} {
		if got := c.keyID.address().String(); got != c.want {
			t.Errorf("%v is at %s, want %s", c.keyID, got, c.want)
		}
	}
}

// No two keys share an IPv4 address or an IPv6 /64, and all are reserved for documentation.
func TestAddressesAreDistinct(t *testing.T) {
	documentation := netip.MustParsePrefix("2001:db8::/32")
	seen := map[netip.Prefix]keyID{}
	for k := range kinds {
		for _, from := range []int64{1, maxKeys / 3, maxKeys - 20_000} {
			for n := from; n <= from+20_000; n++ {
				w := keyID{k, n}
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
		t.Error("there are fewer networks than keys")
	}
}
