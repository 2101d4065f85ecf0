package clientip

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// addresses are few, so that they recur: proxies and others, in all notations.
var addresses = []string{
	"10.0.0.1", "10.0.0.2:80", "::ffff:10.0.0.3", "[::ffff:a00:4]:80", "2001:db8:ffff::1", "[2001:db8:ffff::2%eth0]:80",
	"203.0.113.7", "203.0.113.8:80", "::ffff:203.0.113.9", "2001:db8::7", "[2001:db8::8]", "[2001:db8::9]:443", "fe80::1%eth0",
}

var junk = []string{"", " ", "unknown", "_hidden", "@", "/run/x", "10.0.0.256", "[10.0.0.1]", "10.0.0.1:", "é", `"`, "\\", "=", ",", ";"}

// drawNode returns an address, mostly.
func drawNode(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "junk") == 0 {
		return rapid.SampledFrom(junk).Draw(t, "node")
	}
	return rapid.SampledFrom(addresses).Draw(t, "node")
}

// pieces are the parts from which header lines are made.
var pieces = slices.Concat(addresses, junk, []string{
	"for=", "For=", "for=10.0.0.2", "for=203.0.113.7", `for="10.0.0.2"`, `for="[2001:db8::7]:80"`, `for="\203.0.113.7"`, "proto=http",
	`host="a,b;c"`, `by="\"\\"`, `x="`, ", ", ",", ", ", ",", ";", "; ", "\t", `\"`, `\\`, `="`, strings.Repeat(" ", 500), "10.0.0.2, ",
	"for=10.0.0.2, ", strings.Repeat("10.0.0.2,", 95), strings.Repeat(`for="10.0.0.2",`, 95),
})

// shapes are the ways to write hops.
var shapes = map[string][]string{
	"X-Forwarded-For": {"%s", " %s\t"},
	"Forwarded":       {`for="%s"`, "for=%s;x=y", `x="a,b" ; for="%s"`},
	"X-Real-Ip":       {"%s"},
}

// drawLine returns a list of hops, mostly, or otherwise a sequence of random pieces.
func drawLine(t *rapid.T, header string) string {
	if rapid.IntRange(0, 3).Draw(t, "heap") == 0 {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces"), "")
	}
	shape := rapid.SampledFrom(shapes[header]).Draw(t, "shape")
	var hops []string
	for _, node := range rapid.SliceOfN(rapid.Custom(drawNode), 1, 4).Draw(t, "nodes") {
		hops = append(hops, fmt.Sprintf(shape, node))
	}
	return strings.Join(hops, rapid.SampledFrom([]string{",", ", ", "\t, "}).Draw(t, "comma"))
}

func TestFindMatchesModel(t *testing.T) {
	named := 0
	rapid.Check(t, func(t *rapid.T) {
		opts := drawOptions(t)
		s, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		line := rapid.Custom(func(t *rapid.T) string { return drawLine(t, opts.Header) })
		for range 20 {
			peer, lines := drawNode(t), rapid.SliceOfN(line, 0, 3).Draw(t, "lines")
			want, wantOK := modelFind(opts, peer, lines)
			if got, ok := s.AddrOf(peer, lines); got != want || ok != wantOK {
				t.Fatalf("%+v: Find(%q, %q) is %v, %v; want %v, %v as the model says", opts, peer, lines, got, ok, want, wantOK)
			}
			wantKey := NoAddress
			if wantOK {
				wantKey = keySlowly(opts.Grouping, want)
			}
			if key := s.KeyOf(peer, lines); key != wantKey {
				t.Fatalf("%+v: KeyOf(%q, %q) is %q, want %q", opts, peer, lines, key, wantKey)
			}
			if addr, ok := Parse(peer); ok != wantOK || addr != want {
				named++
			}
		}
	})
	if named < 20 {
		t.Errorf("a header named the client only %d times of 2000: the test misses its subject", named)
	}
}

func drawOptions(t *rapid.T) Options {
	opts := Options{
		Header:    rapid.SampledFrom([]string{"X-Forwarded-For", "X-Forwarded-For", "Forwarded", "Forwarded", "X-Real-Ip"}).Draw(t, "header"),
		TrustUnix: rapid.Bool().Draw(t, "unix"),
		Grouping:  rapid.SampledFrom([]Grouping{{}, {}, {V4: 24, V6: 48}, {V4: 32, V6: 128}}).Draw(t, "grouping"),
	}
	all := prefixes("10.0.0.0/8", "2001:db8:ffff::/48", "10.0.0.1/32", "::ffff:10.0.0.2/127", "fe80::/10", "192.0.2.0/24", "10.0.0.0/16")
	if rapid.IntRange(0, 3).Draw(t, "trust") > 0 {
		opts.Trusted = rapid.SliceOfN(rapid.SampledFrom(all), 1, 5).Draw(t, "trusted")
		return opts
	}
	opts.Hops = 1
	if opts.Header != "X-Real-Ip" {
		opts.Hops = rapid.IntRange(1, 4).Draw(t, "hops")
	}
	return opts
}

// TestWellFormedElements writes elements with everything that the grammar allows, and expects to read from the right what
// it wrote from the left.
func TestWellFormedElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var elements []string
		var want []netip.Addr
		for range rapid.IntRange(1, 5).Draw(t, "elements") {
			addr := netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.1", "203.0.113.7", "2001:db8::7"}).Draw(t, "addr"))
			pairs := []string{forPair(addr, rapid.Bool().Draw(t, "port"))}
			for i := range rapid.IntRange(0, 3).Draw(t, "pairs") {
				pairs = append(pairs, fmt.Sprintf("x%d=%s", i, quoted(rapid.StringN(-1, -1, 100).Draw(t, "value"))))
			}
			elements = append(elements, strings.Join(rapid.Permutation(pairs).Draw(t, "order"), ";"))
			want = append(want, addr)
		}
		line := strings.Join(elements, rapid.SampledFrom([]string{",", ", ", " ,\t"}).Draw(t, "comma"))
		for more := true; more; {
			var addr netip.Addr
			var ok bool
			addr, line, more, ok = cutElement(line)
			if !ok || len(want) == 0 || addr != want[len(want)-1] {
				t.Fatalf("read %v, %v of %q, want the last of %v", addr, ok, elements, want)
			}
			want = want[:len(want)-1]
		}
		if len(want) > 0 {
			t.Fatalf("did not read %v of %q", want, elements)
		}
	})
}

// forPair writes for= as in RFC 7239.
func forPair(addr netip.Addr, port bool) string {
	switch {
	case addr.Is6() && port:
		return fmt.Sprintf(`for="[%v]:4711"`, addr)
	case addr.Is6():
		return fmt.Sprintf(`for="[%v]"`, addr)
	case port:
		return fmt.Sprintf(`for="%v:4711"`, addr)
	}
	return "for=" + addr.String()
}

// quoted writes a quoted string as in RFC 9110.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(text) + `"`
}

// TestProxySetMatchesModel compares the set with the list it was made from, near the edges of the prefixes.
func TestProxySetMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []netip.Prefix
		var near []netip.Addr
		for range rapid.IntRange(0, 8).Draw(t, "prefixes") {
			addr := netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(0, 3).Draw(t, "b")), 0, byte(rapid.IntRange(0, 255).Draw(t, "d"))})
			bits := rapid.IntRange(1, 32).Draw(t, "bits")
			if rapid.Bool().Draw(t, "v6") {
				addr, bits = netip.AddrFrom16([16]byte{0: 0x20, 13: addr.As4()[1], 15: addr.As4()[3]}), bits+96
			}
			prefix := netip.PrefixFrom(addr, bits)
			first := prefix.Masked().Addr()
			list = append(list, prefix)
			near = append(near, addr, addr.Next(), addr.Prev(), first, first.Prev())
		}
		set, err := newProxySet(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range near {
			if addr.IsValid() && set.has(addr) != modelTrusts(Options{Trusted: list}, addr) {
				t.Fatalf("the set of %v contains %v: got %v, want the opposite", list, addr, set.has(addr))
			}
		}
	})
}
