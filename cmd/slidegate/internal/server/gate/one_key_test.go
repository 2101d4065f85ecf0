package gate_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/store"
)

// entries is a store that decides several limits at once only of one key.
type entries struct{ store.Store }

func (e entries) Traits() store.Traits {
	traits := e.Store.Traits()
	traits.Name, traits.OneKey = "entries", true
	return traits
}

// TestOneKey: a file by which one request is counted by two keys is refused where the store decides one key at once.
func TestOneKey(t *testing.T) {
	const address, user = `key: "{address}", limits: [5/1m]`, `key: "{user}", limits: [9/1m]`
	for name, test := range map[string]struct {
		file     string
		requests bool
		wrong    bool
	}{
		"two keys":            {"a: {match: /api/, " + address + "}, b: {match: /api/, " + user + "}", false, true},
		"one key":             {"a: {match: /api/, " + address + "}, b: {match: /api/, key: '{address}', limits: [9/1h]}", false, false},
		"different requests":  {"a: {match: /api/, " + address + "}, b: {match: /login, " + user + "}", false, false},
		"in the shadow":       {"a: {match: /api/, " + address + "}, b: {match: /api/, shadow: true, " + user + "}", false, false},
		"asked by name alone": {"a: {" + address + "}, b: {" + user + "}", false, false},
		"in a proxy":          {"a: {" + address + "}, b: {" + user + "}", true, true},
	} {
		file, err := config.Parse("f", []byte("policies: {"+test.file+"}\n"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		st := entries{memory(t, newClock())}
		g, err := gate.New(file, gate.Stores{Open: st, Closed: st, Local: st, Optimistic: st}, gate.Options{Requests: test.requests})
		if err == nil {
			err = g.Close()
		}
		if got := err != nil && strings.Contains(err.Error(), "their keys differ"); got != test.wrong || err != nil && !test.wrong {
			t.Errorf("%s: got %v, want it refused: %v", name, err, test.wrong)
		}
	}
}
