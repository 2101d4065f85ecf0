package attack_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
)

// TestOneClientHasOneIdentity checks that a client stays the same client however a proxy writes its address, and whatever the
// client puts before it. Text that is not an address does not make a new client.
func TestOneClientHasOneIdentity(t *testing.T) {
	s := servicetest.Start(t, "trusted_proxies: [loopback, 10.0.0.0/8]\npolicies:\n  login: {key: \"{address}\", limits: [1/1h fixed-window anchor=first]}\n",
		func(o *service.Options) { o.Tokens = []string{token} })
	port := portOf(s.Address("http"))
	check := func(lines ...string) int {
		t.Helper()
		return send(t, "127.0.0.1", port, "GET", "/v1/check", "", append(lines, "X-Forwarded-Method: GET", "X-Forwarded-Uri: /")...).status
	}
	const client = "X-Forwarded-For: "
	if got := check(client + "203.0.113.7"); got != 200 {
		t.Fatalf("the client: got %d, want 200", got)
	}
	for _, lines := range [][]string{
		{client + "203.0.113.7"}, {client + "203.0.113.7:4711"}, {client + "::ffff:203.0.113.7"}, {client + "[::ffff:203.0.113.7]:80"}, {client + "::FFFF:CB00:7107"},
		{client + "\t203.0.113.7 "}, {client + "6.6.6.6, 203.0.113.7"}, {client + "6.6.6.6", client + "203.0.113.7"}, {client + "6.6.6.6,,,203.0.113.7"},
		{client + "203.0.113.7, 10.0.0.9"}, {client + "203.0.113.7, 10.0.0.9, 10.0.0.10:80"}, {client + "6.6.6.6, 203.0.113.7, ::ffff:10.0.0.9"},
		{client + "203.0.113.7", "X-Real-IP: 6.6.6.6"}, {client + "203.0.113.7", "Forwarded: for=6.6.6.6"}, {client + "203.0.113.7", "CF-Connecting-IP: 6.6.6.6", "True-Client-IP: 6.6.6.6"},
	} {
		if got := check(lines...); got != 429 {
			t.Errorf("%q: got %d, want 429, since it is the same client", lines, got)
		}
	}
	if got := check(client + "nobody"); got != 200 {
		t.Fatalf("nobody: got %d, want 200", got)
	}
	for _, junk := range []string{
		"unknown", "_hidden", "0313.0.113.7", "0xcb007107", "3405803783", "203.0.113", "203.0.113.256", "203.0.113.7.1", "٢٠٣.0.113.7", "localhost", "203.0.113.7/32",
		"[203.0.113.7", "::1::2", "6.6.6.6, x", strings.Repeat("1.", 10000), "-", "\"203.0.113.9\"x",
	} {
		if got := check(client + junk); got != 429 {
			t.Errorf("%.40q: got %d, want 429, since it is not an address", junk, got)
		}
	}
}
