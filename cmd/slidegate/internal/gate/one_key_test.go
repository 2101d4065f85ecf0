package gate_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/store"
)

// oneKeyStore is a store that can decide several limits together only for one key.
type oneKeyStore struct{ store.Store }

func (e oneKeyStore) Traits() store.Traits {
	traits := e.Store.Traits()
	traits.Name, traits.OneKey = "entries", true
	return traits
}

// TestOneKey: a file that counts one request under two keys is rejected if the store decides only one key at a time.
func TestOneKey(t *testing.T) {
	const address, user = `key: "{address}", limits: [5/1m]`, `key: "{user}", limits: [9/1m]`
	for name, test := range map[string]struct {
		file     string
		requests bool
		wrong    bool
	}{
		"two keys":           {"a: {match: /api/, " + address + "}, b: {match: /api/, " + user + "}", false, true},
		"one key":            {"a: {match: /api/, " + address + "}, b: {match: /api/, key: '{address}', limits: [9/1h]}", false, false},
		"different requests": {"a: {match: /api/, " + address + "}, b: {match: /login, " + user + "}", false, false},
		"in shadow mode":     {"a: {match: /api/, " + address + "}, b: {match: /api/, shadow: true, " + user + "}", false, false},
		"used by name only":  {"a: {" + address + "}, b: {" + user + "}", false, false},
		"in a proxy":         {"a: {" + address + "}, b: {" + user + "}", true, true},
	} {
		file, err := config.Parse("f", []byte("policies: {"+test.file+"}\n"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		st := oneKeyStore{memory(t, newClock())}
		g, err := gate.New(file, st, gate.Options{Requests: test.requests})
		if err == nil {
			err = g.Close()
		}
		if got := err != nil && strings.Contains(err.Error(), "keys differ"); got != test.wrong || err != nil && !test.wrong {
			t.Errorf("%s: got %v, want it rejected: %v", name, err, test.wrong)
		}
	}
}
