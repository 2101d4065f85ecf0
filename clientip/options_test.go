package clientip

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestNewErrors(t *testing.T) {
	const xff = "X-Forwarded-For"
	ten := prefixes("10.0.0.0/8")
	tests := []struct {
		opts Options
		want string
	}{
		{Options{Header: xff}, "clientip: Trusted: missing; list the proxies that may write X-Forwarded-For, or set Hops to their " +
			"number, or leave Header empty to trust no proxy"},
		{Options{Header: "x-real-ip"}, "clientip: Trusted: missing; list the proxies that may write X-Real-Ip"},
		{Options{Header: xff, Trusted: ten, Hops: 1}, "clientip: Hops: cannot be combined with Trusted; keep Trusted if"},
		{Options{Trusted: ten}, "clientip: Header: missing; name the header in which the proxies write the client's address"},
		{Options{Hops: 1}, "clientip: Header: missing"},
		{Options{TrustUnix: true}, "clientip: Header: missing"},
		{Options{Hops: -1}, "clientip: Hops: must be the number of proxies, 1 to 100, or 0 for none, not -1"},
		{Options{Header: xff, Hops: -1}, "clientip: Hops: must be"},
		{Options{Header: xff, Hops: 101}, "clientip: Hops: must be the number of proxies, 1 to 100, or 0 for none, not 101"},
		{Options{Header: "X-Real-IP", Hops: 2}, "clientip: Hops: must be 1 with X-Real-Ip, which contains one address, not 2"},
		{Options{Header: "X-Forwarded-For:", Hops: 1}, `clientip: Header: "X-Forwarded-For:" is not a valid header name`},
		{Options{Header: " ", Hops: 1}, `clientip: Header: " " is not a valid header name`},
		{Options{Header: "X-Förwarded", Hops: 1}, `clientip: Header: "X-Förwarded" is not a valid header name`},
		{Options{Header: xff, Trusted: make([]netip.Prefix, 1)}, "clientip: Trusted[0]: invalid Prefix cannot be compared; use the result"},
		{Options{Header: xff, Trusted: prefixes("10.0.0.0/8", "0.0.0.0/0")},
			"clientip: Trusted[1]: 0.0.0.0/0 would trust every client as a proxy; name the addresses of the proxies, or use Hops"},
		{Options{Header: xff, Trusted: prefixes("::/0")}, "clientip: Trusted[0]: ::/0 would trust every client"},
		{Options{Header: xff, Trusted: prefixes("::ffff:0.0.0.0/96")}, "clientip: Trusted[0]: ::ffff:0.0.0.0/96 would trust every client"},
		{Options{Header: xff, Trusted: prefixes("::ffff:10.0.0.0/95")},
			"clientip: Trusted[0]: ::ffff:10.0.0.0/95 is IPv4 written in IPv6, where the length is 96 to 128; write it in IPv4"},
		{Options{Grouping: Grouping{V4: 33}}, "clientip: V4: must be a prefix length"},
		{Options{Header: xff, Hops: 1, Grouping: Grouping{V6: -1}}, "clientip: V6: must be a prefix length"},
	}
	for _, test := range tests {
		if s, err := New(test.opts); s != nil || err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("New(%+v) is %v, %v, want the error %s", test.opts, s, err, test.want)
		}
	}
}

func TestNewAccepts(t *testing.T) {
	tests := []struct {
		opts   Options
		header string
	}{
		{Options{}, ""},
		{Options{Header: "x-forwarded-for", Hops: 100}, "X-Forwarded-For"},
		{Options{Header: "FORWARDED", Hops: 100}, "Forwarded"},
		{Options{Header: "CF-Connecting-IP", Hops: 1}, "Cf-Connecting-Ip"},
		{Options{Header: "x_client", Trusted: prefixes("10.0.0.1/8")}, "X_client"},
		{Options{Header: "Forwarded", TrustUnix: true}, "Forwarded"},
	}
	for _, test := range tests {
		if s, err := New(test.opts); err != nil || s.Header() != test.header {
			t.Errorf("New(%+v) has the header %q, %v, want %q", test.opts, s.Header(), err, test.header)
		}
	}
}

// TestNewCopiesItsOptions changes the list after it was passed to New.
func TestNewCopiesItsOptions(t *testing.T) {
	opts := Options{Header: "X-Forwarded-For", Trusted: prefixes("10.0.0.0/8")}
	s := mustNew(t, opts)
	opts.Trusted[0] = netip.MustParsePrefix("203.0.113.0/24")
	if key := s.KeyOf("203.0.113.7:5", []string{"6.6.6.6"}); key != "203.0.113.7" {
		t.Errorf("got the key %q, want that of the peer, which New was not told to trust", key)
	}
}

func TestParseProxies(t *testing.T) {
	tests := []struct{ text, want string }{
		{"10.0.0.0/8", "10.0.0.0/8"},
		{"10.1.2.3/8", "10.0.0.0/8"},
		{"192.0.2.1", "192.0.2.1/32"},
		{"2001:db8::/32", "2001:db8::/32"},
		{"2001:DB8::1", "2001:db8::1/128"},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8"},
		{"::ffff:192.0.2.1", "192.0.2.1/32"},
		{"::ffff:192.0.2.1/128", "192.0.2.1/32"},
		{"0.0.0.0", "0.0.0.0/32"},
		{"128.0.0.0/1", "128.0.0.0/1"},
		{"loopback", "127.0.0.0/8 ::1/128"},
		{"private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 169.254.0.0/16 fe80::/10"},
		{"loopback 192.0.2.1", "127.0.0.0/8 ::1/128 192.0.2.1/32"},
		{"", ""},
	}
	for _, test := range tests {
		got, err := ParseProxies(strings.Fields(test.text)...)
		if want := prefixes(strings.Fields(test.want)...); err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseProxies(%q) is %v, %v, want %v", test.text, got, err, want)
		}
	}
}

func TestParseProxiesErrors(t *testing.T) {
	const kinds = " must be an address, a prefix such as 10.0.0.0/8, or one of the words loopback and private"
	tests := []struct{ text, want string }{
		{"", kinds}, {" ", kinds}, {"localhost", kinds}, {"Private", kinds}, {"10.0.0.0/33", kinds}, {"10.0.0.0/", kinds},
		{"10.0.0", kinds}, {"10.0.0.1:80", kinds}, {"[::1]", kinds}, {" 10.0.0.1", kinds}, {"10.0.0.1,10.0.0.2", kinds},
		{"010.0.0.1", kinds}, {"2001:db8::/129", kinds}, {"10.0.0.0/08", kinds},
		{"0.0.0.0/0", " would trust every client as a proxy; name the addresses of the proxies, or use Hops if they are not known"},
		{"::/0", " would trust every client as a proxy; name the addresses of the proxies, or use Hops if they are not known"},
		{"::ffff:10.0.0.0/8", " is IPv4 written in IPv6, where the length is 96 to 128; write it in IPv4"},
		{"fe80::1%eth0", " has a zone, and zones are not compared; leave it out"},
		{"fe80::%eth0/10", " has a zone, and zones are not compared; leave it out"},
	}
	for _, test := range tests {
		want := `clientip: proxy "` + test.text + `"` + test.want
		if got, err := ParseProxies("loopback", test.text); got != nil || err == nil || err.Error() != want {
			t.Errorf("ParseProxies(loopback, %q) is %v, %v, want the error %s", test.text, got, err, want)
		}
	}
}

// TestProxyWords checks which addresses each word includes.
func TestProxyWords(t *testing.T) {
	tests := []struct {
		word    string
		in, out []string
	}{
		{"loopback", []string{"127.0.0.1", "127.255.255.255", "::1"}, []string{"126.255.255.255", "128.0.0.0", "::", "::2", "10.0.0.1"}},
		{"private",
			[]string{"10.255.0.1", "172.16.0.0", "172.31.255.255", "192.168.255.255", "169.254.1.1", "fc00::1", "fdff::1", "fe80::1",
				"febf:ffff::"},
			[]string{"127.0.0.1", "::1", "100.64.0.1", "172.15.255.255", "172.32.0.0", "192.169.0.0", "169.253.0.1", "fe00::", "fec0::",
				"fbff::", "2001:db8::1", "0.0.0.0", "255.255.255.255"}},
	}
	for _, test := range tests {
		list, err := ParseProxies(test.word)
		if err != nil {
			t.Fatal(err)
		}
		set, err := newProxySet(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range slices.Concat(test.in, test.out) {
			if got, want := set.has(netip.MustParseAddr(text)), slices.Contains(test.in, text); got != want {
				t.Errorf("%s has %s is %v, want %v", test.word, text, got, want)
			}
		}
	}
}
