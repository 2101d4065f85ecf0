package clientip

import (
	"net/http"
	"strings"
	"testing"
)

func BenchmarkKey(b *testing.B) {
	for _, bench := range []struct{ name, source, peer, line string }{
		{"none/v4", "none", "192.0.2.1:1234", ""},
		{"none/v6", "none", "[2001:db8:85a3:1234:5678:8a2e:370:7334]:1234", ""},
		{"none/unix", "none", "@", ""},
		{"untrusted/v4", "xff", "192.0.2.1:1234", "6.6.6.6"},
		{"list/v4", "xff", "10.0.0.1:1234", "203.0.113.7"},
		{"list/v4-spoofed", "xff", "10.0.0.1:1234", "6.6.6.6, 7.7.7.7, 203.0.113.7, 10.0.0.2"},
		{"list/v6", "xff", "10.0.0.1:1234", "2001:db8:85a3:1234:5678:8a2e:370:7334"},
		{"list/1MB-of-lies", "xff", "10.0.0.1:1234", strings.Repeat("6.6.6.6,", 1<<17) + "203.0.113.7"},
		{"list/1000-proxies", "xff", "10.0.0.1:1234", strings.Repeat("10.0.0.2,", 1000) + "10.0.0.2"},
		{"hops/v4", "hops2", "10.0.0.1:1234", "203.0.113.7, 10.0.0.2"},
		{"forwarded/v4", "fwd", "10.0.0.1:1234", "for=203.0.113.7;proto=https;by=10.0.0.9"},
		{"forwarded/v6", "fwd", "10.0.0.1:1234", `for="[2001:db8:85a3:1234:5678:8a2e:370:7334]:4711";proto=https`},
		{"alone/v4", "real", "10.0.0.1:1234", "203.0.113.7"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := mustNew(b, sources[bench.source])
			r := &http.Request{RemoteAddr: bench.peer, Header: http.Header{s.Header(): {bench.line}}}
			b.ReportAllocs()
			for b.Loop() {
				s.Key(r)
			}
		})
	}
}

// BenchmarkKeyManyProxies uses as many proxies as the largest networks publish.
func BenchmarkKeyManyProxies(b *testing.B) {
	s := mustNew(b, Options{Header: "X-Forwarded-For", Trusted: manyPrefixes(10_000)})
	r := &http.Request{RemoteAddr: "20.0.0.1:1234", Header: http.Header{"X-Forwarded-For": {"203.0.113.7"}}}
	b.ReportAllocs()
	for b.Loop() {
		s.Key(r)
	}
}
