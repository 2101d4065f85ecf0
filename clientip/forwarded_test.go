package clientip

import (
	"net/netip"
	"strings"
	"testing"
)

// forwardedCases are about Forwarded.
var forwardedCases = []sourceCase{
	{"the proxy names the client", "fwd", "10.0.0.1:5", "203.0.113.7", []string{"Forwarded: for=203.0.113.7"}},
	{"an untrusted peer", "fwd", "203.0.113.7:5", "203.0.113.7", []string{"Forwarded: for=6.6.6.6"}},
	{"the wrong header", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"X-Forwarded-For: 6.6.6.6"}},
	{"what the client sent is to the left", "fwd", "10.0.0.1:5", "203.0.113.7",
		[]string{"Forwarded: for=6.6.6.6, for=203.0.113.7, for=10.0.0.2"}},
	{"or in a line before", "fwd", "10.0.0.1:5", "203.0.113.7", []string{"forwarded: for=6.6.6.6", "FORWARDED: for=203.0.113.7"}},
	{"names are in any case", "fwd", "10.0.0.1:5", "203.0.113.7", []string{"Forwarded: For=6.6.6.6, FOR=203.0.113.7, fOr=10.0.0.2"}},
	{"pairs before and after", "fwd", "10.0.0.1:5", "203.0.113.7",
		[]string{"Forwarded: for=6.6.6.6, proto=https;for=203.0.113.7;by=10.0.0.9;host=example.com"}},
	{"spaces around semicolons and commas", "fwd", "10.0.0.1:5", "203.0.113.7",
		[]string{"Forwarded: for=6.6.6.6\t,  by=6.6.6.6 ;\tfor=203.0.113.7 ; proto=https\t , for=10.0.0.2 "}},
	{"no spaces", "fwd", "10.0.0.1:5", "203.0.113.7", []string{"Forwarded: for=6.6.6.6,by=x;for=203.0.113.7,for=10.0.0.2"}},
	{"empty pairs are allowed", "fwd", "10.0.0.1:5", "203.0.113.7", []string{"Forwarded: for=6.6.6.6,;;for=203.0.113.7; ;proto=http;"}},
	{"IPv6 in quotes, brackets and a port", "fwd", "10.0.0.1:5", "2001:db8::7",
		[]string{`Forwarded: for=6.6.6.6, for="[2001:db8::7]:4711"`}},
	{"IPv6 in quotes and brackets", "fwd", "10.0.0.1:5", "2001:db8::7", []string{`Forwarded: for="[2001:db8::7]"`}},
	{"IPv6 in quotes without brackets, which some proxies write", "fwd", "10.0.0.1:5", "2001:db8::7", []string{`Forwarded: for="2001:db8::7"`}},
	{"IPv6 without quotes, which some proxies write", "fwd", "10.0.0.1:5", "2001:db8::7", []string{`Forwarded: for=[2001:db8::7]:80;by=x`}},
	{"IPv4 with a port, with quotes and without", "fwd", "10.0.0.1:5", "203.0.113.7",
		[]string{`Forwarded: for="203.0.113.7:4711", for=10.0.0.2:80`}},
	{"IPv4 in IPv6", "fwd", "10.0.0.1:5", "203.0.113.7", []string{`Forwarded: for="[::ffff:203.0.113.7]", for="[::ffff:10.0.0.2]:5"`}},
	{"proxies of IPv6", "fwd", "10.0.0.1:5", "203.0.113.7", []string{`Forwarded: for=203.0.113.7, for="[2001:db8:ffff::2%eth0]"`}},
	{"escapes in quotes", "fwd", "10.0.0.1:5", "2001:db8::7", []string{`Forwarded: for="\[2001:db8\:\:7\]\:80"`}},
	{"escapes outside quotes are invalid", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=\203.0.113.7`}},
	{"unknown", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6, for=unknown"}},
	{"unknown before a proxy", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6, for=unknown, for=10.0.0.2"}},
	{"a name that hides the address", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6, for=_hidden"}},
	{"a name that hides the address, with a port", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for="_gazonk:80"`}},
	{"a port that is a name", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for="203.0.113.7:_port"`}},
	{"names to the left are not reached", "fwd", "10.0.0.1:5", "203.0.113.7", []string{"Forwarded: for=unknown, for=203.0.113.7"}},
	{"an element without for", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6, proto=https;by=203.0.113.7"}},
	{"an element without for before a proxy's", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6, by=x, for=10.0.0.2"}},
	{"an empty element", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6,"}},
	{"an empty header", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded:"}},
	{"an empty for", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6, for="}},
	{"an empty for in quotes", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for=""`}},
	{"two for in one element: either may be forged", "fwd", "10.0.0.1:5", "10.0.0.1",
		[]string{"Forwarded: for=6.6.6.6;for=203.0.113.7"}},
	{"two for in one element, even if they are the same", "fwd", "10.0.0.1:5", "10.0.0.1",
		[]string{`Forwarded: for=203.0.113.7;proto=http;For="203.0.113.7"`}},
	{"two for, one of which is not an address", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6;for=unknown"}},
	{"names that end in for are not for", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: x-for=6.6.6.6"}},
	{"names that begin with for are not for", "fwd", "10.0.0.1:5", "203.0.113.7", []string{"Forwarded: fork=6.6.6.6;for=203.0.113.7"}},
	{"a bare address is not a pair", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6, 203.0.113.7"}},
	{"a name without a value is not a pair", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=203.0.113.7;secure"}},
	{"spaces around = are not allowed", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6, for = 203.0.113.7"}},
	{"not before it", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for ="203.0.113.7"`}},
	{"not after it", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for= "203.0.113.7"`}},
	{"not in the quotes", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for=" 203.0.113.7"`}},
	{"commas in quotes", "fwd", "10.0.0.1:5", "203.0.113.7", []string{`Forwarded: for=6.6.6.6, for=203.0.113.7;host="a, for=6.6.6.6"`}},
	{"semicolons in quotes", "fwd", "10.0.0.1:5", "203.0.113.7", []string{`Forwarded: host="a;for=6.6.6.6;";for=203.0.113.7`}},
	{"quotes in quotes", "fwd", "10.0.0.1:5", "203.0.113.7",
		[]string{`Forwarded: for=6.6.6.6, for=203.0.113.7;host="a\", for=\"6.6.6.6\""`}},
	{"backslashes in quotes", "fwd", "10.0.0.1:5", "203.0.113.7", []string{`Forwarded: for=6.6.6.6, for=203.0.113.7;host="\\\\\"\\"`}},
	{"a backslash does not close quotes", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for=203.0.113.7;host="\"`}},
	{"a value ends with its quotes", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for="203.0.113.7"x`}},
	{"a value begins with its quotes", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for=x"203.0.113.7"`}},
	{"quotes come after =", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, forx"203.0.113.7"`}},
	{"nothing comes after quotes", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for=203.0.113.7;x="a"b`}},
	{"a value in quotes has a name", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for=203.0.113.7;="x"`}},
	{"a value has a name", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for=6.6.6.6, for=203.0.113.7;=x`}},
	{"an element is in one line", "fwd", "10.0.0.1:5", "10.0.0.1",
		[]string{`Forwarded: for=6.6.6.6, for=203.0.113.7;host="a`, `Forwarded: b"`}},
	{"an open quote swallows nothing", "fwd", "10.0.0.1:5", "203.0.113.7", []string{`Forwarded: for="6.6.6.6, for=203.0.113.7`}},
	{"an open quote does not pair with the proxy's", "fwd", "10.0.0.1:5", "2001:db8::7",
		[]string{`Forwarded: for=6.6.6.6;x=", for="[2001:db8::7]:80"`}},
	{"nor if the proxy has two of them", "fwd", "10.0.0.1:5", "2001:db8::7",
		[]string{`Forwarded: for=6.6.6.6;x=", for="[2001:db8::7]";by="[2001:db8:ffff::1]"`}},
	{"nor if the host is the client's choice", "fwd", "10.0.0.1:5", "203.0.113.7",
		[]string{`Forwarded: for=6.6.6.6;x=", for=203.0.113.7;host=",for=6.6.6.6;y="`}},
	{"nor with a backslash at its end", "fwd", "10.0.0.1:5", "203.0.113.7", []string{`Forwarded: for=6.6.6.6;x="\, for="203.0.113.7"`}},
	{"an open quote of the client, two proxies", "fwd", "10.0.0.1:5", "203.0.113.7",
		[]string{`Forwarded: for=6.6.6.6;x=", for="203.0.113.7";by="a,b", for="10.0.0.2:80"`}},
	{"an open quote in a line before", "fwd", "10.0.0.1:5", "203.0.113.7", []string{`Forwarded: for="6.6.6.6`, `Forwarded: for="203.0.113.7"`}},
	{"an open quote alone names no client", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: for="6.6.6.6`}},
	{"a quote alone names no client", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: "`}},
	{"quotes alone name no client", "fwd", "10.0.0.1:5", "10.0.0.1", []string{`Forwarded: """`}},
	{"letters outside ASCII", "fwd", "10.0.0.1:5", "203.0.113.7", []string{`Forwarded: for=é, for=203.0.113.7;host="é"`}},
	{"letters outside ASCII in a name", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=6.6.6.6;é=1"}},
	{"all are proxies", "fwd", "10.0.0.1:5", "10.0.0.1", []string{"Forwarded: for=10.6.6.6, for=10.0.0.2"}},
	{"a thousand forged entries", "fwd", "10.0.0.1:5", "203.0.113.7", []string{"Forwarded: " + strings.Repeat("for=6.6.6.6, ", 1000) + "for=203.0.113.7"}},
	{"a thousand proxies are too many", "fwd", "10.0.0.1:5", "10.0.0.1",
		[]string{"Forwarded: for=203.0.113.7" + strings.Repeat(", for=10.0.0.2", 1000)}},
	{"a long element is not read", "fwd", "10.0.0.1:5", "10.0.0.1",
		[]string{`Forwarded: for=6.6.6.6, for=203.0.113.7;host="` + strings.Repeat("a", 1024) + `"`}},
	{"nor one that is cut at a semicolon", "fwd", "10.0.0.1:5", "10.0.0.1",
		[]string{`Forwarded: for=203.0.113.7;host=` + strings.Repeat("a", 1024-len(";for=6.6.6.6")) + `;for=6.6.6.6`}},
	{"nor one that is cut before a name", "fwd", "10.0.0.1:5", "10.0.0.1",
		[]string{"Forwarded: x" + strings.Repeat(" ", 1024-len("for=6.6.6.6")) + "for=6.6.6.6"}},
	{"one hop", "fwd-hops1", "198.51.100.1:5", "203.0.113.7", []string{"Forwarded: for=6.6.6.6, for=203.0.113.7"}},
	{"one hop is unknown", "fwd-hops1", "198.51.100.1:5", "198.51.100.1", []string{"Forwarded: for=6.6.6.6, for=unknown"}},
	{"two hops, the first of which hides the second", "fwd-hops2", "198.51.100.1:5", "203.0.113.7",
		[]string{`Forwarded: for=6.6.6.6, for=203.0.113.7, for=_hidden;by="a,b"`}},
	{"two hops, the first of which does not name the second", "fwd-hops2", "198.51.100.1:5", "203.0.113.7",
		[]string{"Forwarded: for=6.6.6.6, for=203.0.113.7, by=x"}},
	{"two hops, the first of which cannot be read", "fwd-hops2", "198.51.100.1:5", "198.51.100.1",
		[]string{`Forwarded: for=6.6.6.6, for=203.0.113.7, for=198.51.100.2;by="`}},
	{"two hops, one element", "fwd-hops2", "198.51.100.1:5", "198.51.100.1", []string{"Forwarded: for=6.6.6.6"}},
}

// TestElementLengthIsBounded checks both sides of the bound: an element may have 1023 bytes after a comma, or 1024 alone.
func TestElementLengthIsBounded(t *testing.T) {
	fill := func(n int) string {
		const head, tail = `for=203.0.113.7;host="`, `"`
		return head + strings.Repeat("a", n-len(head)-len(tail)) + tail
	}
	tests := []struct {
		line string
		ok   bool
	}{
		{fill(1024), true}, {fill(1025), false},
		{"for=6.6.6.6," + fill(1023), true}, {"for=6.6.6.6," + fill(1024), false},
	}
	for i, test := range tests {
		addr, _, _, ok := cutElement(test.line)
		if ok != test.ok || ok && addr != netip.MustParseAddr("203.0.113.7") {
			t.Errorf("%d: cutElement of %d bytes is %v, %v, want ok %v", i, len(test.line), addr, ok, test.ok)
		}
	}
}
