package clientip

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestKeyOfGroup(t *testing.T) {
	tests := []struct {
		grouping   Grouping
		text, want string
	}{
		{Grouping{}, "192.0.2.1", "192.0.2.1"},
		{Grouping{}, "192.0.2.1:80", "192.0.2.1"},
		{Grouping{}, "::ffff:192.0.2.1", "192.0.2.1"},
		{Grouping{}, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{Grouping{}, "[2001:0DB8:1:2:3::]:443", "2001:db8:1:2::/64"},
		{Grouping{}, "2001:db8::1", "2001:db8::/64"},
		{Grouping{}, "fe80::1%eth0", "fe80::/64"},
		{Grouping{}, "::1", "::/64"},
		{Grouping{V4: 24}, "192.0.2.131", "192.0.2.0/24"},
		{Grouping{V4: 24}, "[::ffff:192.0.2.131]:80", "192.0.2.0/24"},
		{Grouping{V4: 25}, "192.0.2.131:80", "192.0.2.128/25"},
		{Grouping{V4: 1}, "192.0.2.131", "128.0.0.0/1"},
		{Grouping{V4: 32, V6: 128}, "192.0.2.131", "192.0.2.131"},
		{Grouping{V4: 32, V6: 128}, "2001:db8:0::1", "2001:db8::1"},
		{Grouping{V4: 32, V6: 128}, "fe80::1%eth0", "fe80::1"},
		{Grouping{V6: 128}, "1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"},         // sourceCase group of zeros is written out
		{Grouping{V6: 128}, "1:0:0:2:3:0:0:4", "1::2:3:0:0:4"},            // of two runs of the same length, the first is shortened
		{Grouping{V6: 128}, "1:0:0:2:0:0:0:4", "1:0:0:2::4"},              // otherwise the longest run is shortened
		{Grouping{V6: 128}, "0:0:0:abcd:ef0:10:1:0", "::abcd:ef0:10:1:0"}, // every length of a group
		{Grouping{V6: 48}, "2001:db8:1:2::1", "2001:db8:1::/48"},
		{Grouping{V6: 56}, "2001:db8:1:2ff::1", "2001:db8:1:200::/56"},
		{Grouping{V6: 1}, "ffff::1", "8000::/1"},
		{Grouping{V4: 33, V6: 129}, "2001:db8:1:2::1", "2001:db8:1:2::/64"}, // an invalid length counts as the default
		{Grouping{V4: -1, V6: -1}, "192.0.2.1", "192.0.2.1"},
	}
	for _, test := range tests {
		if key, ok := test.grouping.AppendText([]byte("k="), []byte(test.text)); !ok || string(key) != "k="+test.want {
			t.Errorf("%+v.AppendText(%q) is %q, %v, want k=%s", test.grouping, test.text, key, ok, test.want)
		}
		addr, _ := Parse(test.text)
		if key := test.grouping.Append([]byte("k="), addr); string(key) != "k="+test.want {
			t.Errorf("%+v.Append(%v) is %q, want k=%s", test.grouping, addr, key, test.want)
		}
	}
}

func TestOf(t *testing.T) {
	tests := []struct{ addr, want string }{
		{"192.0.2.131", "192.0.2.0/24"},
		{"::ffff:192.0.2.131", "192.0.2.0/24"},
		{"::ffff:192.0.2.131%eth0", "192.0.2.0/24"},
		{"fe80:1:2:3::1%eth0", "fe80:1:2::/48"},
		{"fe80:1:2:4::2", "fe80:1:2::/48"},
	}
	g := Grouping{V4: 24, V6: 48}
	for _, test := range tests {
		if got := g.Of(netip.MustParseAddr(test.addr)); got != netip.MustParsePrefix(test.want) {
			t.Errorf("Of(%s) is %v, want %s", test.addr, got, test.want)
		}
	}
	if got := g.Of(netip.Addr{}); got != (netip.Prefix{}) {
		t.Errorf("Of the zero Addr is %v, want the zero Prefix", got)
	}
	if got := g.Append([]byte("x"), netip.Addr{}); string(got) != "x" {
		t.Errorf("Append of the zero Addr returns %q, want nothing appended", got)
	}
}

func TestCheck(t *testing.T) {
	for _, g := range []Grouping{{}, {V4: 1, V6: 1}, {V4: 32, V6: 128}, {V4: 24}, {V6: 56}} {
		if err := g.Check(); err != nil {
			t.Errorf("%+v: got the error %v, want none", g, err)
		}
	}
	tests := []struct {
		grouping Grouping
		want     string
	}{
		{Grouping{V4: 33}, "clientip: V4: must be a prefix length of 1 to 32, or 0 for 32, not 33"},
		{Grouping{V4: -1}, "clientip: V4: must be a prefix length of 1 to 32, or 0 for 32, not -1"},
		{Grouping{V6: 129}, "clientip: V6: must be a prefix length of 1 to 128, or 0 for 64, not 129"},
		{Grouping{V6: -1}, "clientip: V6: must be a prefix length of 1 to 128, or 0 for 64, not -1"},
	}
	for _, test := range tests {
		if err := test.grouping.Check(); err == nil || err.Error() != test.want {
			t.Errorf("%+v: %v, want %s", test.grouping, err, test.want)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	buffer := make([]byte, 0, 64)
	for _, text := range []string{"192.0.2.131:80", "[2001:db8:1:2:3:4:5:6%eth0]:443", "::ffff:192.0.2.1", "nobody"} {
		line := []byte(text)
		for _, g := range []Grouping{{}, {V4: 24, V6: 128}} {
			if n := testing.AllocsPerRun(100, func() { buffer, _ = g.AppendText(buffer[:0], line) }); n != 0 {
				t.Errorf("%+v.AppendText(%q) allocates %v times", g, text, n)
			}
		}
		if n := testing.AllocsPerRun(100, func() { Parse(text) }); n != 0 {
			t.Errorf("Parse(%q) allocates %v times", text, n)
		}
	}
}

func BenchmarkAppendText(b *testing.B) {
	for _, bench := range []struct {
		name     string
		grouping Grouping
		text     string
	}{
		{"v4", Grouping{}, "198.51.100.123"},
		{"v4-port", Grouping{}, "198.51.100.123:54321"},
		{"v4-24", Grouping{V4: 24}, "198.51.100.123"},
		{"v6-64", Grouping{}, "2001:db8:85a3:1234:5678:8a2e:370:7334"},
		{"v6-128", Grouping{V6: 128}, "2001:db8:85a3:1234:5678:8a2e:370:7334"},
		{"refused", Grouping{}, "localhost"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			text, key := []byte(bench.text), make([]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				key, _ = bench.grouping.AppendText(key[:0], text)
			}
		})
	}
}

func ExampleGrouping() {
	var g Grouping
	for _, text := range []string{"192.0.2.1:51634", "2001:db8:1:2:c0de::1", "[2001:db8:1:2:beef::2]:443"} {
		if key, ok := g.AppendText(nil, []byte(text)); ok {
			fmt.Printf("%s\n", key)
		}
	}
	// Output:
	// 192.0.2.1
	// 2001:db8:1:2::/64
	// 2001:db8:1:2::/64
}
