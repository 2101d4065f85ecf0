package clientip

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

// An address that embeds an IPv4 address has the key of that IPv4 address, in every form.
func TestEmbeddedAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"64:ff9b::203.0.113.7":                 "203.0.113.7",
		"64:ff9b::cb00:7107":                   "203.0.113.7",
		"64:FF9B:0:0:0:0:203.0.113.7":          "203.0.113.7",
		"[64:ff9b::cb00:7107]:443":             "203.0.113.7",
		"2002:cb00:7107::1":                    "203.0.113.7",
		"2002:cb00:7107:ffff:1:2:3:4":          "203.0.113.7",
		"2001:0:4136:e378:8000:63bf:34ff:8ef8": "203.0.113.7",
		"2001::34ff:8ef8":                      "203.0.113.7",
		"::ffff:0:203.0.113.7":                 "203.0.113.7",
		"::ffff:203.0.113.7":                   "203.0.113.7",
		"64:ff9b:1::203.0.113.7":               "64:ff9b:1::/64",
		"64:ff9b:0:1::203.0.113.7":             "64:ff9b:0:1::/64",
		"2001:1::1":                            "2001:1::/64",
		"2001:db8::1":                          "2001:db8::/64",
		"2003:cb00:7107::1":                    "2003:cb00:7107::/64",
		"::203.0.113.7":                        "::/64",
		"::1":                                  "::/64",
	} {
		var g Grouping
		addr, ok := Parse(text)
		if !ok {
			t.Fatalf("%s is not an address", text)
		}
		appended := string(g.Append(nil, addr))
		fromText, _ := g.AppendText(nil, []byte(text))
		key, ok := g.Key(text)
		if appended != want || string(fromText) != want || key != want || !ok {
			t.Errorf("%s: got the keys %q, %q and %q, want %q", text, appended, fromText, key, want)
		}
		if group := g.Of(addr); !group.IsSingleIP() && group.String() != want || group.IsSingleIP() && group.Addr().String() != want {
			t.Errorf("%s: got the group %v, want %s", text, group, want)
		}
	}
	wide := Grouping{V4: 24}
	if got := string(wide.Append(nil, netip.MustParseAddr("64:ff9b::cb00:7107"))); got != "203.0.113.0/24" {
		t.Errorf("with /24: got the key %q, want 203.0.113.0/24", got)
	}
	kept := Grouping{KeepEmbedded: true}
	for text, want := range map[string]string{"64:ff9b::cb00:7107": "64:ff9b::/64", "2002:cb00:7107::1": "2002:cb00:7107::/64", "2001::34ff:8ef8": "2001::/64"} {
		if got, _ := kept.Key(text); got != want {
			t.Errorf("with KeepEmbedded, %s: got the key %q, want %q", text, got, want)
		}
	}
}

// A source groups them the same way.
func TestSourceOfEmbeddedAddresses(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "[2002:cb00:7107:1::1]:1234"
	if got := (&Source{}).Key(r); got != "203.0.113.7" {
		t.Errorf("got the key %q, want that of the IPv4 address", got)
	}
}

// A key that is not an address is returned unchanged, without allocating.
func TestKeyOfText(t *testing.T) {
	for _, text := range []string{"", "alice", "2001:db8::/64", "10.0.0.0/8", "1.2.3", "1.2.3.4.5", "user:7", "address:1.2.3.4", "::g", "-", "1.2.3.4:port"} {
		if key, ok := (Grouping{}).Key(text); ok || key != text {
			t.Errorf("the key of %q: got %q, %t, want the text itself", text, key, ok)
		}
	}
	if key, ok := (Grouping{}).Key("203.0.113.7:80"); !ok || key != "203.0.113.7" {
		t.Errorf("with a port: got the key %q", key)
	}
	for _, text := range []string{"alice", "203.0.113.7", "2001:db8::/64", "0123456789abcdef0123456789abcdef"} {
		if n := testing.AllocsPerRun(100, func() { (Grouping{}).Key(text) }); n != 0 {
			t.Errorf("the key of %q: got %v allocations, want 0", text, n)
		}
	}
}
