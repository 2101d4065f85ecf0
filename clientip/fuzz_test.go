package clientip

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
)

// attacks are headers that a client may send to impersonate another.
var attacks = []string{
	"", "6.6.6.6", "6.6.6.6,", "6.6.6.6, 10.0.0.2", ",", "unknown", "for=6.6.6.6", `for="6.6.6.6`, `for="6.6.6.6"`, `for=6.6.6.6;x="`,
	`for=6.6.6.6;x="\`, `for=6.6.6.6;`, `for=6.6.6.6;for=`, `"`, `\`, `\"`, "=", `for="`, `="`, `x="\\"`, "10.0.0.2, 10.0.0.3", "\x00", "é", "\t",
	"for=6.6.6.6,for=10.0.0.2", strings.Repeat("6.6.6.6, ", 150), strings.Repeat("6", 1100), `for=6.6.6.6;x="` + strings.Repeat("y", 1100),
}

// FuzzSpoof checks the main promise of the package: what a client sends does not change its identity.
func FuzzSpoof(f *testing.F) {
	for i, attack := range attacks {
		f.Add(attack, "", uint64(i), uint8(i))
		f.Add("for=6.6.6.6", attack, uint64(1)<<40|uint64(i), uint8(i*5))
		f.Add(`for=6.6.6.6;x="`, `,for=6.6.6.6;y="`+attack, uint64(i)<<33, uint8(i*3))
	}
	built := map[string]*Source{}
	for name, opts := range sources {
		built[name] = mustNew(f, opts)
	}
	f.Fuzz(func(t *testing.T, attack, host string, id uint64, choice uint8) {
		client := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(id))))
		if choice&1 != 0 {
			client = netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 8: byte(id >> 56), 9: byte(id >> 32), 14: byte(id >> 8), 15: byte(id)})
		}
		if modelTrusts(sources["xff"], client) {
			return
		}
		checkUntrusted(t, built, client, attack)
		list := proxiedRequest{client, client.String(), "10.0.0.2", attack, choice}
		if choice&2 != 0 {
			list.entry = netip.AddrPortFrom(client, 4711).String()
		}
		list.check(t, built["xff"], built["hops2"])
		if len(host) > 900/2 {
			host = host[:900/2] // a longer element would not be read
		}
		element := forPair(client, choice&2 != 0)
		if choice&4 != 0 {
			element += ";host=" + quoted(host)
		} else {
			element = "host=" + quoted(host) + ";" + element
		}
		proxiedRequest{client, element, `for="10.0.0.2:80";by=` + quoted(host), attack, choice}.check(t, built["fwd"], built["fwd-hops2"])
	})
}

// checkUntrusted checks that no header changes the identity of a client that is connected directly.
func checkUntrusted(t *testing.T, built map[string]*Source, client netip.Addr, attack string) {
	peer := netip.AddrPortFrom(client, 4711).String()
	for _, name := range []string{"none", "xff", "fwd", "real"} {
		for _, lines := range [][]string{{attack}, {attack, attack}, {attack, "6.6.6.6"}, {"for=6.6.6.6", attack}} {
			if got, ok := built[name].AddrOf(peer, lines); !ok || got != client {
				t.Fatalf("%s: Find(%q, %q) is %v, %v, want the peer", name, peer, lines, got, ok)
			}
			if key := built[name].KeyOf(peer, lines); key != keySlowly(Grouping{}, client) {
				t.Fatalf("%s: KeyOf(%q, %q) is %q, want the peer's", name, peer, lines, key)
			}
		}
	}
}

// proxiedRequest is a request that has come through two proxies, each of which has appended its entry to what the client sent.
type proxiedRequest struct {
	client        netip.Addr
	entry, second string // the entries of the farther proxy, which names the client, and of the nearer one
	attack        string
	choice        uint8
}

// check expects the client, whether each proxy appends to the last line or adds a line.
func (p proxiedRequest) check(t *testing.T, one, two *Source) {
	add := func(lines []string, entry string, ownLine bool) []string {
		if ownLine {
			return append(lines, entry)
		}
		last := len(lines) - 1
		return append(lines[:last:last], lines[last]+", "+entry)
	}
	if p.client.IsUnspecified() {
		return // it names no client
	}
	lines := add([]string{"for=6.6.6.6, 6.6.6.6", p.attack}, p.entry, p.choice&8 != 0)
	if got, ok := one.AddrOf("10.0.0.1:80", lines); !ok || got != p.client {
		t.Fatalf("Find(%q) is %v, %v, want %v", lines, got, ok, p.client)
	}
	lines = add(lines, p.second, p.choice&16 != 0)
	for _, s := range []*Source{one, two} {
		if got, ok := s.AddrOf("10.0.0.1:80", lines); !ok || got != p.client {
			t.Fatalf("with Hops 2, Find(%q) is %v, %v, want %v", lines, got, ok, p.client)
		}
	}
}

// FuzzHeader compares arbitrary headers with the model.
func FuzzHeader(f *testing.F) {
	for i, attack := range attacks {
		f.Add(attack, attack+", 10.0.0.2", uint8(i))
		f.Add("for=203.0.113.7;x="+quoted(attack), attack+", for=10.0.0.2", uint8(i))
	}
	names := []string{"xff", "fwd", "fwd-hops2", "hops2", "real", "fwd"}
	built := map[string]*Source{}
	for _, name := range names {
		built[name] = mustNew(f, sources[name])
	}
	f.Fuzz(func(t *testing.T, first, second string, choice uint8) {
		if len(first)+len(second) > 4000 {
			return // the model is slow
		}
		name := names[int(choice)%len(names)]
		opts := sources[name]
		if opts.Header == "forwarded" {
			opts.Header = "Forwarded"
		}
		lines := []string{first, second}
		want, wantOK := modelFind(opts, "10.0.0.1:80", lines)
		if got, ok := built[name].AddrOf("10.0.0.1:80", lines); got != want || ok != wantOK {
			t.Fatalf("%s: Find(%q) is %v, %v; want %v, %v as the model says", name, lines, got, ok, want, wantOK)
		}
	})
}
