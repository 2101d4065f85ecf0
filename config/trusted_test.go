package config

import (
	"fmt"
	"testing"
)

// An empty list trusts no proxy, which is not the same as no list, and both survive Format.
func TestTrustedProxies(t *testing.T) {
	for _, test := range []struct {
		line, want string
		given      bool
	}{
		{"", "[]", false},
		{"trusted_proxies: []\n", "[]", true},
		{"trusted_proxies: [loopback]\n", "[127.0.0.0/8 ::1/128]", true},
		{"trusted_proxies: [10.0.0.0/8, loopback]\n", "[10.0.0.0/8 127.0.0.0/8 ::1/128]", true},
		{"trusted_proxies: [private]\n", "[10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 169.254.0.0/16 fe80::/10]", true},
	} {
		text := []byte(test.line + "policies: {a: {limits: [1/s]}}\n")
		for _, step := range []string{"read", "printed and read again"} {
			file, err := Parse("f", text)
			if err != nil {
				t.Fatalf("%q, %s: %v", test.line, step, err)
			}
			got := file.Service.TrustedProxies
			if fmt.Sprint(got) != test.want || (got != nil) != test.given {
				t.Errorf("%q, %s: got %v, given is %v, want %s and %v", test.line, step, got, got != nil, test.want, test.given)
			}
			text = Format(file)
		}
	}
}
