package refusals

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TestEqualHashesDoNotShareEntries checks that two requests with the same hash do not share an entry. No such two are known, so this
// compares entries directly.
func TestEqualHashesDoNotShareEntries(t *testing.T) {
	bind := func(name string, quota int64) *store.Limit {
		limit, err := adapter.Bind("", slidegate.Limit{Name: name, Quota: quota, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return limit
	}
	limit := bind("limit", 1)
	charge := func(limit *store.Limit, key string) store.Charge {
		return store.Charge{Limit: limit, Key: key, Cost: 1}
	}
	one := []store.Charge{charge(limit, "key")}
	two := append(one, charge(limit, "other"))
	for _, test := range []struct {
		name     string
		group    string
		entry    []store.Charge
		requests []store.Charge
		askedFor string
		want     bool
	}{
		{"the same", "g", one, one, "g", true},
		{"two, the same", "g", two, two, "g", true},
		{"bound again", "g", one, []store.Charge{charge(bind("limit", 1), "key")}, "g", true},
		{"another key", "g", one, []store.Charge{charge(limit, "yek")}, "g", false},
		{"another second key", "g", two, append(one[:1:1], charge(limit, "yek")), "g", false},
		{"another group", "g", one, one, "h", false},
		{"another name", "g", one, []store.Charge{charge(bind("timil", 1), "key")}, "g", false},
		{"another quota", "g", one, []store.Charge{charge(bind("limit", 2), "key")}, "g", false},
		{"more charges", "g", one, two, "g", false},
		{"fewer charges", "g", two, one, "g", false},
	} {
		e := newEntry(&lookup{}, 0, test.group, test.entry, make([]rule.Answer, len(test.entry)))
		if got := e.sameCharges(test.askedFor, test.requests); got != test.want {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}
