package proxy_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/config"
)

// TestForgedAddressesAreOneClient: whatever a client claims about itself, it counts as one client, and the claims do not reach the
// application.
func TestForgedAddressesAreOneClient(t *testing.T) {
	r := newRig(t, application(t, echo), settings{policies: []config.Policy{policy("p", "", "3/1h")}})
	for i := range 5 {
		invented := fmt.Sprintf("198.51.100.%d", i)
		got := r.send("GET", "/", "X-Forwarded-For", invented, "Forwarded", "for="+invented, "X-Real-IP", invented,
			"X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https", "Connection", "X-Forwarded-For")
		if i >= 3 {
			if got.StatusCode != 429 {
				t.Errorf("request %d: got %s, want 429", i, got.Status)
			}
			continue
		}
		if want := "xff=127.0.0.1 proto=http xfh=" + r.at + " real= fwd="; got.StatusCode != 200 || !strings.HasSuffix(got.body, want) {
			t.Errorf("request %d: got %s %s, want 200 and a body that ends in %s", i, got.Status, got.body, want)
		}
	}
}

// TestTrustedPeer: the chain of a trusted proxy is used, and forwarded with the proxy's own address added.
func TestTrustedPeer(t *testing.T) {
	r := newRig(t, application(t, echo), settings{policies: []config.Policy{policy("p", "", "1/1h")},
		trusted: append([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, loopback...)})
	for i, c := range []struct {
		chain  string
		status int
	}{
		{"198.51.100.1", 200}, {"198.51.100.2", 200}, {"198.51.100.1", 429},
		{"6.6.6.6, 198.51.100.2", 429},           // everything left of the client is invented
		{"198.51.100.3, 10.0.0.7", 200},          // two proxies
		{"198.51.100.3, 10.0.0.8", 429},          // the same client through another proxy
		{"7.7.7.7, 198.51.100.3, 10.9.9.9", 429}, // with more inventions
	} {
		got := r.send("GET", "/", "X-Forwarded-For", c.chain, "X-Forwarded-Proto", "https", "X-Forwarded-Host", "www.example", "X-Real-IP", "9.9.9.9")
		if got.StatusCode != c.status {
			t.Errorf("request %d: %s: got %s, want %d", i, c.chain, got.Status, c.status)
		}
		want := "xff=" + c.chain + ", 127.0.0.1 proto=https xfh=www.example real=9.9.9.9 fwd="
		if c.status == 200 && !strings.HasSuffix(got.body, want) {
			t.Errorf("request %d: the application saw %s, want it to end in %s", i, got.body, want)
		}
	}
	if got := r.send("GET", "/"); !strings.HasSuffix(got.body, "xff=127.0.0.1 proto=http xfh="+r.at+" real= fwd=") {
		t.Errorf("with nothing to keep: got %s", got.body)
	}
}

// TestTrustedProxiesCanChange: the trusted proxies can be changed while requests arrive.
func TestTrustedProxiesCanChange(t *testing.T) {
	s := unlimitedSettings()
	s.trusted = loopback
	r := newRig(t, application(t, echo), s)
	for i, want := range []string{"xff=1.2.3.4, 127.0.0.1 ", "xff=127.0.0.1 "} {
		if got := r.send("GET", "/", "X-Forwarded-For", "1.2.3.4"); !strings.Contains(got.body, want) {
			t.Errorf("request %d: the application saw %s, want %s", i, got.body, want)
		}
		file := *r.file
		file.Service.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		if err := r.gate.Reload(&file); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHostRewritten(t *testing.T) {
	to := application(t, echo)
	s := unlimitedSettings()
	s.opts.RewriteHost = true
	r := newRig(t, to, s)
	if got := r.sendRaw("GET / HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\n\r\n"); !strings.Contains(got.body,
		" host="+strings.TrimPrefix(to, "http://")+" ") || !strings.Contains(got.body, "xfh=www.example ") {
		t.Error(got.body)
	}
}
