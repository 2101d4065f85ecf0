package gate_test

import (
	"fmt"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/testkit"
)

// The counts of a client are found again by a later version: a request under these policies is charged to the same addresses. What stores
// make of an address is held by test/formats.
func TestReleasedAddresses(t *testing.T) {
	const file = `
policies:
  address: {limits: [10/1m]}
  shadowed: {limits: [10/1h name=slow, 5/1s name=fast token-bucket], shadow: true, key: "{header:X-User}"}
  tried: {limits: [10/1m], candidate: [5/1m, 7/1h sliding-log], key: host}
  penalized: {limits: [10/1m sliding-window], penalty: 5m, key: "{header:X-User}"}
  both: {limits: [10/1d fixed-window anchor=first], key: "{address} {header:X-User}"}
  text: {limits: [10/month zone=Europe/Berlin], key: "{method} {path}"}
  either: {limits: [10/1w sliding-log], key: ["header:X-User", address]}
  planned: {limits: [10/1m name=a], key: "{header:X-User}", plan: header:X-Plan, plans: {pro: {limits: [20/1m name=a, 100/1h name=b segments=6]}}}
  overridden: {limits: [10/1m], key: "{header:X-User}", overrides: [{key: alice, limits: [99/1m name=own]}]}
  classed: {limits: [10/1m], key: "{header:X-User}", class: header:X-Class, classes: {batch: 50%, default: 90%}}
  running: {limits: [2 in-flight ttl=30s], key: "{header:X-User}"}
`
	parsed, err := config.Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	st := &testkit.Addresses{Store: memory(t, newClock())}
	g, err := gate.New(parsed, st, gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	var lines []string
	for client, header := range map[string]string{"203.0.113.9:1": "alice", "[2001:db8:1:2:3:4:5:6]:1": "b:{}\xe9", "[2002:cb00:7109::1]:1": ""} {
		r := request("POST", "http://Shop.example:80/a/../login?x=1", "X-Plan", "pro", "X-Class", "batch")
		r.RemoteAddr = client
		if header != "" {
			r.Header.Set("X-User", header)
		}
		st.Seen = nil
		_, held, err := g.HoldRequest(ctx, r, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		held.Release(ctx, func(err error) { t.Error(err) })
		for _, address := range st.Seen {
			lines = append(lines, fmt.Sprintf("client %s, user %q: %s", client, header, address))
		}
	}
	testkit.Released(t, "../../../../internal/repotest/released/addresses.txt", lines)
}
