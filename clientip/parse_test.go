package clientip

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct{ text, want string }{
		{"192.0.2.1", "192.0.2.1"},
		{"0.0.0.0", "0.0.0.0"},
		{"255.255.255.255", "255.255.255.255"},
		{"192.0.2.1:80", "192.0.2.1"},
		{"192.0.2.1:0", "192.0.2.1"},
		{"192.0.2.1:65535", "192.0.2.1"},
		{"192.0.2.1:00080", "192.0.2.1"},
		{"2001:db8::1", "2001:db8::1"},
		{"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"[2001:db8::1]:443", "2001:db8::1"},
		{"2001:db8::1:443", "2001:db8::1:443"}, // not a port
		{"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
		{"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
		{"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
		{"::", "::"},
		{"::1", "::1"},
		{"1::", "1::"},
		{"64:ff9b::192.0.2.1", "64:ff9b::c000:201"},
		{"1:2:3:4:5:6:192.0.2.1", "1:2:3:4:5:6:c000:201"},
		{"fe80::1%eth0", "fe80::1"},
		{"fe80::1%25eth0", "fe80::1"},
		{"[fe80::1%eth0.1]:443", "fe80::1"},
		{"[fe80::1%eth0]", "fe80::1"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"::FFFF:c000:201", "192.0.2.1"},
		{"[::ffff:192.0.2.1]:80", "192.0.2.1"},
		{"::ffff:192.0.2.1%eth0", "192.0.2.1"},
	}
	for _, test := range tests {
		want := netip.MustParseAddr(test.want)
		if got, ok := Parse(test.text); !ok || got != want {
			t.Errorf("Parse(%q) is %v, %v, want %v", test.text, got, ok, want)
		}
		if got, ok := Parse([]byte(test.text)); !ok || got != want {
			t.Errorf("Parse([]byte(%q)) is %v, %v, want %v", test.text, got, ok, want)
		}
	}
}

// notAddresses are texts similar to an address that are not addresses.
var notAddresses = []string{
	"", " ", "-", ".", ":", "[", "]", "[]", "%", "localhost", "unknown", "_hidden", "example.com:80",
	"192.0.2", "192.0.2.", "192.0.2.1.", "192.0.2.1.5", ".192.0.2.1", "192..2.1",
	"192.0.2.256", "192.0.2.1000", "192.0.2.01", "192.0.2.00", "1920.0.2.1", "0x7f.0.0.1", "3221225985",
	" 192.0.2.1", "192.0.2.1 ", "192.0.2.1\n", "\"192.0.2.1\"", "192.0.2.1/32", "192.0.2.1, 192.0.2.2", "192.0.2.1%eth0",
	"192.0.2.1:", "192.0.2.1:80:", "192.0.2.1:65536", "192.0.2.1:000080", "192.0.2.1:+80", "192.0.2.1:_80", "192.0.2.1:http",
	"[192.0.2.1]", "[192.0.2.1]:80",
	":::", "1:::2", "::1::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::", "1:2:3:4::5:6:7:8", ":1::2",
	"1:2:3:4:5:6:7:", "1::2:", "12345::", "1::12345", "g::1", "1::g", "2001:db8::/64",
	"1:2:3:4:5:6:7:192.0.2.1", "1:2:3:4:5:192.0.2.1", "::192.0.2", "::192.0.2.256", "::192.0.2.1.5", "::1234.0.2.1",
	"::192.0.2.1:80", "1:2:3:4:5:6::192.0.2.1", "192.0.2.1::",
	"[::1", "::1]", "[[::1]]", "[::1]443", "[::1]:", "[::1]:65536", "[::1]x", "[::1]%eth0", "[::1]]", "[::1] :80",
	"::1%", "[::1%]", "::1%a b", "::1%a%b", "::1%a]", "::1%a/64", "::1%\x7f", "::1%é",
}

func TestParseRejects(t *testing.T) {
	for _, text := range notAddresses {
		if got, ok := Parse(text); ok || got.IsValid() {
			t.Errorf("Parse(%q) is %v, want it rejected", text, got)
		}
		if dst, ok := (Grouping{}).AppendText([]byte("x"), []byte(text)); ok || string(dst) != "x" {
			t.Errorf("AppendText(x, %q) is %q, %v, want it rejected", text, dst, ok)
		}
	}
}

// parseSlowly is Parse by the standard library.
func parseSlowly(text string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap().WithZone(""), goodZone(addr)
	}
	host, inBrackets := strings.CutPrefix(text, "[")
	if !inBrackets || !strings.HasSuffix(host, "]") {
		colon := strings.LastIndexByte(host, ':')
		if colon < 0 {
			return netip.Addr{}, false
		}
		port := host[colon+1:]
		if _, err := strconv.ParseUint(port, 10, 16); err != nil || len(port) > 5 {
			return netip.Addr{}, false
		}
		host = host[:colon]
	}
	if inBrackets {
		var closed bool
		if host, closed = strings.CutSuffix(host, "]"); !closed {
			return netip.Addr{}, false
		}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || inBrackets != addr.Is6() {
		return netip.Addr{}, false
	}
	return addr.Unmap().WithZone(""), goodZone(addr)
}

func goodZone(addr netip.Addr) bool {
	return !strings.ContainsFunc(addr.Zone(), func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("[]%/", r)
	})
}

// keySlowly is Append by the standard library.
func keySlowly(g Grouping, addr netip.Addr) string {
	group := g.Of(addr)
	if group.IsSingleIP() {
		return group.Addr().String()
	}
	return group.String()
}

func FuzzParse(f *testing.F) {
	for _, text := range append(notAddresses, "192.0.2.1", "192.0.2.1:80", "[2001:db8::1]:443", "1:2:3:4:5:6:192.0.2.1",
		"fe80::1%eth0", "::ffff:192.0.2.1", "2001:db8:1:2:3:4:5:6", "[fe80::1%eth0]:1") {
		f.Add(text, 0, 0)
		f.Add(text, 24, 48)
		f.Add(text, 32, 128)
	}
	f.Fuzz(func(t *testing.T, text string, v4, v6 int) {
		want, wantOK := parseSlowly(text)
		got, ok := Parse(text)
		if ok != wantOK || ok && got != want {
			t.Fatalf("Parse(%q) is %v, %v; want %v, %v as the standard library says", text, got, ok, want, wantOK)
		}
		if got, ok := Parse([]byte(text)); ok != wantOK || ok && got != want {
			t.Fatalf("Parse([]byte(%q)) is %v, %v; want %v, %v as the standard library says", text, got, ok, want, wantOK)
		}
		g := Grouping{V4: v4, V6: v6}
		wantKey := "x"
		if wantOK {
			wantKey += keySlowly(g, want)
		}
		if key := string(g.Append([]byte("x"), want)); wantOK && key != wantKey {
			t.Fatalf("%+v.Append(x, %v) is %q, want %q", g, want, key, wantKey)
		}
		if key, ok := g.AppendText([]byte("x"), []byte(text)); ok != wantOK || string(key) != wantKey {
			t.Fatalf("%+v.AppendText(x, %q) is %q, %v, want %q, %v", g, text, key, ok, wantKey, wantOK)
		}
	})
}
