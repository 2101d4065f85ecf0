package gate_test

import (
	"net"
	"testing"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
)

// groupedGate returns a gate with one policy that groups addresses.
func groupedGate(t *testing.T, key string, groups clientip.Grouping) *gate.Gate {
	t.Helper()
	file := &config.File{Policies: []config.Policy{matching("p", "", key, "2/1h")}, Service: config.Service{AddressGroups: groups}}
	g, err := gate.New(file, memory(t, newClock()), gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// All operations use the key that limits a request, however its address is written.
func TestOperationsUseTheKeyOfRequests(t *testing.T) {
	for _, test := range []struct {
		key     string
		groups  clientip.Grouping
		from    string   // the client of the request
		written []string // spellings of its key
		others  []string // other keys
	}{
		{"{address}", clientip.Grouping{}, "2001:db8::3", []string{"2001:db8::3", "2001:DB8:0:0::9", "2001:db8::/64", "[2001:db8::3]:443"}, []string{"2001:db8:0:1::3"}},
		{"{address}", clientip.Grouping{V6: 56}, "2001:db8:0:7::3", []string{"2001:db8::1", "2001:db8:0:ff::1", "2001:db8::/56"}, []string{"2001:db8:0:100::1", "2001:db8::/64"}},
		{"{address}", clientip.Grouping{}, "203.0.113.7", []string{"203.0.113.7", "::ffff:203.0.113.7", "203.0.113.7:80", "64:ff9b::cb00:7107", "2002:cb00:7107::1"}, []string{"203.0.113.8", "address:203.0.113.7"}},
		{"{address}", clientip.Grouping{V4: 24}, "203.0.113.7", []string{"203.0.113.9", "203.0.113.0/24"}, []string{"203.0.112.7"}},
		{"{header:X-Key}", clientip.Grouping{}, "2001:db8::3", []string{"address:2001:db8::3", "address:2001:db8::/64"}, []string{"2001:db8::3", "2001:db8::/64"}},
		{"{header:X-Key}", clientip.Grouping{}, "203.0.113.7", []string{"address:203.0.113.7", "address:::ffff:203.0.113.7"}, []string{"203.0.113.7"}},
	} {
		g := groupedGate(t, test.key, test.groups)
		r := request("GET", "/")
		r.RemoteAddr = net.JoinHostPort(test.from, "1")
		if v := check(t, g, r); v.Decision.Remaining != 1 {
			t.Fatalf("%s: the first request leaves %d, want 1", test.key, v.Decision.Remaining)
		}
		for _, key := range test.written {
			if v, err := g.Do(ctx, gate.Peek, gate.Request{Key: key, Cost: 1}); err != nil || v.Decision.Remaining != 1 {
				t.Errorf("%s: Peek of %s: got %d left, %v; want 1, as for requests from %s", test.key, key, v.Decision.Remaining, err, test.from)
			}
			decisions, errs := make([]policy.Decision, 1), make([]error, 1)
			if g.AllowBatch(ctx, []gate.Request{{Key: key, Cost: 1}}, decisions, errs); decisions[0].Decision.Remaining != 0 || !decisions[0].Decision.Allowed {
				t.Errorf("%s: AllowBatch of %s: got %+v, want it to take the last unit", test.key, key, decisions[0].Decision)
			}
			if v, err := g.Do(ctx, gate.Refund, gate.Request{Key: key, Cost: 1}); err != nil || v.Decision.Remaining != 1 {
				t.Errorf("%s: Refund to %s leaves %d, %v, want 1", test.key, key, v.Decision.Remaining, err)
			}
			res, _, err := g.Take(ctx, gate.Reserve, gate.Request{Key: key, Cost: 1})
			if err == nil {
				_, err = g.End(ctx, gate.Cancel, "", res)
			}
			if v := check(t, g, r); err != nil || !v.Decision.Allowed || v.Decision.Remaining != 0 {
				t.Errorf("%s: after a reservation for %s was cancelled, a request leaves %d, %v, want 0", test.key, key, v.Decision.Remaining, err)
			}
			if _, err := g.Do(ctx, gate.Reset, gate.Request{Key: key}); err != nil {
				t.Fatal(err)
			}
			if v := check(t, g, r); v.Decision.Remaining != 1 {
				t.Errorf("%s: after Reset of %s a request leaves %d, want 1", test.key, key, v.Decision.Remaining)
			}
		}
		for _, key := range test.others {
			if v, err := g.Do(ctx, gate.Peek, gate.Request{Key: key, Cost: 1}); err != nil || v.Decision.Remaining != 2 {
				t.Errorf("%s: Peek of %s: got %d left, %v; want 2, since it is another key", test.key, key, v.Decision.Remaining, err)
			}
		}
	}
}
