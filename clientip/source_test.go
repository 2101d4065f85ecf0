package clientip

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
)

// sources are the sources used in the tests. Proxies live in 10.0.0.0/8 and 2001:db8:ffff::/48; the real client is
// 203.0.113.7 or 2001:db8::7; 6.6.6.6 and similar addresses are forged.
var sources = map[string]Options{
	"none":      {},
	"xff":       {Header: "X-Forwarded-For", Trusted: prefixes("10.0.0.0/8", "2001:db8:ffff::/48")},
	"xff6":      {Header: "X-Forwarded-For", Trusted: prefixes("2001:db8:ffff::/48")},
	"mapped":    {Header: "X-Forwarded-For", Trusted: prefixes("::ffff:10.0.0.0/104")},
	"local":     {Header: "X-Forwarded-For", Trusted: prefixes("fe80::/10")},
	"hops1":     {Header: "X-Forwarded-For", Hops: 1},
	"hops2":     {Header: "X-Forwarded-For", Hops: 2},
	"unix":      {Header: "X-Forwarded-For", Trusted: prefixes("10.0.0.0/8"), TrustUnix: true},
	"only-unix": {Header: "X-Forwarded-For", TrustUnix: true},
	"unix-hops": {Header: "X-Forwarded-For", Hops: 2, TrustUnix: true},
	"fwd":       {Header: "forwarded", Trusted: prefixes("10.0.0.0/8", "2001:db8:ffff::/48")},
	"fwd-hops1": {Header: "Forwarded", Hops: 1},
	"fwd-hops2": {Header: "Forwarded", Hops: 2},
	"real":      {Header: "x-real-ip", Trusted: prefixes("10.0.0.0/8")},
	"real-hops": {Header: "X-Real-IP", Hops: 1},
	"cf":        {Header: "CF-Connecting-IP", Trusted: prefixes("198.51.100.0/24")},
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func mustNew(t testing.TB, opts Options) *Source {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request returns a request with a peer and with header lines such as "Name: value", in the order in which they arrive.
func request(t testing.TB, peer string, lines ...string) *http.Request {
	t.Helper()
	r := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("%q is not a header line", line)
		}
		r.Header.Add(name, value)
	}
	return r
}

// sourceCase is a request with its expected client and the reason; an empty client has no address.
type sourceCase struct {
	why    string
	source string
	peer   string
	client string
	lines  []string
}

func TestClient(t *testing.T) {
	for _, cases := range [][]sourceCase{peerCases, listCases, unixCases, hopCases, aloneCases, forwardedCases} {
		for _, c := range cases {
			s := mustNew(t, sources[c.source])
			r := request(t, c.peer, c.lines...)
			before := maps.Clone(r.Header)
			var want netip.Addr
			wantKey := NoAddress
			if c.client != "" {
				want = netip.MustParseAddr(c.client)
				wantKey = keySlowly(Grouping{}, want)
			}
			got, ok := s.Addr(r)
			if got != want || ok != (c.client != "") {
				t.Errorf("%s, %s with %q: the client is %v, %v, want %q: %s", c.source, c.peer, c.lines, got, ok, c.client, c.why)
			}
			if key := s.Key(r); key != wantKey {
				t.Errorf("%s, %s with %q: the key is %q, want %q: %s", c.source, c.peer, c.lines, key, wantKey, c.why)
			}
			lines := r.Header[s.Header()]
			if got, ok := s.AddrOf(c.peer, lines); got != want || ok != (c.client != "") {
				t.Errorf("%s, Find(%q, %q) is %v, %v, want %q: %s", c.source, c.peer, lines, got, ok, c.client, c.why)
			}
			if key := s.KeyOf(c.peer, lines); key != wantKey {
				t.Errorf("%s, KeyOf(%q, %q) is %q, want %q: %s", c.source, c.peer, lines, key, wantKey, c.why)
			}
			if r.RemoteAddr != c.peer || !maps.EqualFunc(r.Header, before, slices.Equal) {
				t.Errorf("%s, %s with %q: the request was changed", c.source, c.peer, c.lines)
			}
		}
	}
}

// TestZeroSource checks the zero Source and the nil Source.
func TestZeroSource(t *testing.T) {
	for name, s := range map[string]*Source{"nil": nil, "zero": {}} {
		r := request(t, "203.0.113.7:80", "X-Forwarded-For: 6.6.6.6", "Forwarded: for=6.6.6.6", ": 6.6.6.6")
		if addr, ok := s.Addr(r); !ok || addr != netip.MustParseAddr("203.0.113.7") {
			t.Errorf("%s: the client is %v, %v, want the peer", name, addr, ok)
		}
		if key := s.Key(r); key != "203.0.113.7" {
			t.Errorf("%s: the key is %q, want the peer's", name, key)
		}
		if addr, ok := s.AddrOf("203.0.113.7:80", []string{"6.6.6.6"}); !ok || addr != netip.MustParseAddr("203.0.113.7") {
			t.Errorf("%s: Find is %v, %v, want the peer", name, addr, ok)
		}
		if key := s.KeyOf("[2001:db8:1:2:3::4]:80", []string{"6.6.6.6"}); key != "2001:db8:1:2::/64" {
			t.Errorf("%s: KeyOf is %q, want the peer's", name, key)
		}
		if addr, ok := s.AddrOf("@", []string{"6.6.6.6"}); ok || addr.IsValid() {
			t.Errorf("%s: the client on a Unix socket is %v, %v, want none", name, addr, ok)
		}
		if s.Header() != "" {
			t.Errorf("%s: the header is %q, want none", name, s.Header())
		}
	}
}

// TestRealRequest reads a request as a server does: names in any case are one header, with its lines in order.
func TestRealRequest(t *testing.T) {
	const text = "GET / HTTP/1.1\r\nHost: example.com\r\n" +
		"x-forwarded-for: 6.6.6.6\r\nX-FORWARDED-FOR: 203.0.113.7\r\nX-Forwarded-for:10.0.0.2\r\n" +
		"X_Forwarded_For: 7.7.7.7\r\nX-Forwarded-For-: 8.8.8.8\r\n\r\n"
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "10.0.0.1:80"
	if key := mustNew(t, sources["xff"]).Key(r); key != "203.0.113.7" {
		t.Errorf("got the key %q, want that of the client, which the farther proxy has appended", key)
	}
}

func TestKeyIsGrouped(t *testing.T) {
	s := mustNew(t, Options{
		Header: "x-forwarded-for", Trusted: prefixes("10.0.0.0/8"), Grouping: Grouping{V4: 24, V6: 48},
	})
	tests := []struct{ peer, line, want string }{
		{"192.0.2.131:80", "", "192.0.2.0/24"},
		{"[::ffff:192.0.2.131]:80", "", "192.0.2.0/24"},
		{"[2001:db8:1:2::1]:80", "", "2001:db8:1::/48"},
		{"10.0.0.1:80", "192.0.2.131", "192.0.2.0/24"},
		{"10.0.0.1:80", "[2001:db8:1:2::1]:5", "2001:db8:1::/48"},
		{"10.0.0.1:80", "unknown", "10.0.0.0/24"},
	}
	for _, test := range tests {
		if key := s.KeyOf(test.peer, []string{test.line}); key != test.want {
			t.Errorf("KeyOf(%q, %q) is %q, want %q", test.peer, test.line, key, test.want)
		}
	}
	if s.Header() != "X-Forwarded-For" {
		t.Errorf("the header is %q, want its canonical name", s.Header())
	}
}

// TestNumberOfEntriesIsBounded checks both sides of the bound of entries, in lists that are longer than what is read of one entry.
func TestNumberOfEntriesIsBounded(t *testing.T) {
	for name, shape := range map[string]string{"xff": "%s", "fwd": `for="%s"`} {
		s := mustNew(t, sources[name])
		list := []string{fmt.Sprintf(shape, "6.6.6.6"), fmt.Sprintf(shape, "203.0.113.7")}
		for range 99 {
			list = append(list, fmt.Sprintf(shape, "10.0.0.2:44444"))
		}
		tests := []struct{ why, want string }{
			{"99 proxies and the client are 100 entries", "203.0.113.7"},
			{"after 100 proxies, the client would be entry 101", "10.0.0.1"},
		}
		for _, test := range tests {
			for _, lines := range [][]string{list, {strings.Join(list, ",")}} {
				if key := s.KeyOf("10.0.0.1:80", lines); key != test.want {
					t.Errorf("%s: in %d lines the key is %q, want %q: %s", name, len(lines), key, test.want, test.why)
				}
			}
			list = append(list, fmt.Sprintf(shape, "10.0.0.3"))
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	s := mustNew(t, sources["fwd"])
	r := request(t, "10.0.0.1:80", `Forwarded: for=6.6.6.6, for="\203.0.113.7"`)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				if key := s.Key(r); key != "203.0.113.7" {
					t.Errorf("the key is %q, want 203.0.113.7", key)
				}
			}
		})
	}
	group.Wait()
}

func TestAllocations(t *testing.T) {
	tests := []struct {
		source, peer string
		lines        []string
		want         float64
	}{
		{"none", "192.0.2.1:1234", nil, 0},
		{"none", "@", nil, 0},
		{"none", "[2001:db8:1:2:3:4:5:6]:1234", nil, 1},
		{"xff", "192.0.2.1:1234", []string{"6.6.6.6"}, 0},
		{"xff", "10.0.0.1:1234", []string{"203.0.113.7, 10.0.0.2"}, 1},
		{"xff", "[2001:db8:ffff::1]:1234", []string{"2001:db8:1:2:3:4:5:6, 10.0.0.2"}, 1},
		{"fwd", "10.0.0.1:1234", []string{`for="[2001:db8:1:2:3:4:5:6]:80";proto=https, for=10.0.0.2`}, 1},
	}
	for _, test := range tests {
		s := mustNew(t, sources[test.source])
		r := &http.Request{RemoteAddr: test.peer, Header: http.Header{s.Header(): test.lines}}
		if n := testing.AllocsPerRun(100, func() { s.Key(r) }); n > test.want {
			t.Errorf("%s, %s with %q: Key allocates %v times, want %v", test.source, test.peer, test.lines, n, test.want)
		}
		if n := testing.AllocsPerRun(100, func() { s.Addr(r) }); n != 0 {
			t.Errorf("%s, %s with %q: Addr allocates %v times, want 0", test.source, test.peer, test.lines, n)
		}
	}
}

// TestManyProxies checks the first and the last of ten thousand proxies, and an address next to them.
func TestManyProxies(t *testing.T) {
	s := mustNew(t, Options{Header: "X-Forwarded-For", Trusted: manyPrefixes(10_000)})
	tests := []struct{ peer, want string }{
		{"20.0.0.1:5", "203.0.113.7"}, {"20.39.15.255:5", "203.0.113.7"}, // 39 * 256 + 15 is 9999
		{"20.39.16.0:5", "20.39.16.0"}, {"19.255.255.255:5", "19.255.255.255"},
	}
	for _, test := range tests {
		if key := s.KeyOf(test.peer, []string{"203.0.113.7"}); key != test.want {
			t.Errorf("KeyOf(%q) is %q, want %q", test.peer, key, test.want)
		}
	}
}

// manyPrefixes returns n networks of /24, from 20.0.0.0 on.
func manyPrefixes(n int) []netip.Prefix {
	list := make([]netip.Prefix, n)
	for i := range list {
		list[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 8), byte(i), 0}), 24)
	}
	return list
}
