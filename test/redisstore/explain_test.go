package redisstore_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/test/redistest"
)

// Everything that the store writes can be explained.
func TestExplain(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return 1_767_000_030e6 }})
	want := map[string]string{
		"window":       `sliding-window over 1m0s: since 2025-12-29T09:20:00.000000Z: 3, 0 units, the newest part first`,
		"first":        `sliding-window over 1m0s: since 2025-12-29T09:20:30.000000Z: 3, 0 units, the newest part first`,
		"parts":        `sliding-window over 1m0s: since 2025-12-29T09:20:30.000000Z: 3, 0, 0, 0, 0, 0, 0 units, the newest part first`,
		"fixed":        `fixed-window over 1m0s: since 2025-12-29T09:20:00.000000Z: 3 units, the newest part first`,
		"log":          `sliding-log over 1m0s: 3 units`,
		"long-log":     `sliding-log over 1m0s: 3 units`,
		"bucket":       `token-bucket over 1m0s: 3 units missing at 2025-12-29T09:20:30.000000Z, full at 2025-12-29T09:21:30.000000Z at the latest`,
		"large-bucket": `token-bucket over 1h0m0s: 3 units missing at 2025-12-29T09:20:30.000000Z, full at 2025-12-29T10:20:30.000000Z at the latest`,
		"calendar":     `fixed-window by the month in Europe/Berlin: since 2025-11-30T23:00:00.000000Z: 3 units, the newest part first`,
		"in-flight":    `in-flight for 1m0s: 1 slots, the least recently renewed one at 2025-12-29T09:20:30.000000Z`,
	}
	for name, l := range allKinds() {
		limit := bindRule(t, "explain", name, l)
		applyRequest(t, s, request(rule.Charge, limit, "key", 1, 3))
		key := nameOf(limit, "key")
		checkExplained(t, key, text(t, client, "GET", key), `key "key", limit "`+name+`", namespace "explain", `+want[name])
		if _, err := redisstore.Explain(key, newer(limit, text(t, client, "GET", key))); err == nil {
			t.Errorf("%s: a value of a newer version was explained", name)
		}
		if l.Algorithm == rule.InFlight {
			continue
		}
		applyRequest(t, s, settleOf(limit, "key", 1, 1, 0, 1))
		found := do(t, client, "KEYS", key[:len(key)-1]+"*settled*")
		names, err := found.AsStrSlice()
		if err != nil || len(names) != 1 {
			t.Fatalf("%s: got hashes %q, %v, want one", name, names, err)
		}
		explained, err := redisstore.Explain(names[0], "")
		if !regexp.MustCompile(`^key "key", .*: reservations settled, of (even|odd) generations, remembered for at least `).MatchString(explained) || err != nil {
			t.Errorf("%s: got %q, %v", names[0], explained, err)
		}
	}
	// A key may look like the end of a settlement's name.
	checkExplained(t, "slidegate::n:sliding-log-60000000:{group}:%25settled-5-0", strings.Repeat("\x00", 8)+"\x00\x00\x00\x00\x00\x00\x24\x40\x01"+strings.Repeat("\x07", 8),
		`key "%settled-5-0" of group "group", limit "n", sliding-log over 1m0s: 2 units`)
}

func checkExplained(t *testing.T, name, value, want string) {
	t.Helper()
	if got, err := redisstore.Explain(name, value); err != nil || got != want {
		t.Errorf("%s: got\n%s, %v; want\n%s", name, got, err, want)
	}
}
