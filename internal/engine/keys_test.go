package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
)

// address is the form of keys that are addresses.
var address = keyform.Address(clientip.Grouping{})

// A ruling about a key precedes one about its prefix, a longer prefix a shorter one, and one name all alternatives; when it
// ends, the next one applies.
func TestRulingsByPrefix(t *testing.T) {
	form := keyform.FirstOf(keyform.Part{Name: "header:X-User", Mark: "0:"}, keyform.Part{Name: "address", Mark: "1:", Form: address})
	set := newSet(t, newMemory(t), Options{}, Spec{Form: form, Limits: []slidegate.Limit{slidegate.PerMinute(5)}})
	past := time.Now().Add(-time.Second)
	err := set.SetRulings(0, []Ruling{
		{Key: "1:203.0.0.0/16", Refused: true},
		{Key: "1:203.0.113.0/24", Unlimited: true},
		{Key: "1:203.0.113.7", Refused: true},
		{Key: "1:203.0.114.0/24", Unlimited: true, Until: past},
		{Key: "0:eve", Refused: true},
		{Key: "1:2001:db8::/32", Refused: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]policy.By{
		"1:203.0.113.7": policy.ByRuling, "1:203.0.113.8": policy.ByUnlimited, "1:203.0.9.9": policy.ByRuling, "1:203.0.114.1": policy.ByRuling, "1:204.0.0.1": policy.ByLimits,
		"0:eve": policy.ByRuling, "1:eve": policy.ByLimits, "0:203.0.113.7": policy.ByLimits, "1:2001:db8:1::/64": policy.ByRuling, "1:2001:db9::/64": policy.ByLimits,
		"0:2001:db8::/32": policy.ByLimits, "1:unix": policy.ByLimits, "1:": policy.ByLimits, "": policy.ByLimits,
	} {
		if by, _, _ := set.Route(Part{Key: key}); by != want {
			t.Errorf("%q: got %v, want %v", key, by, want)
		}
	}
	if text, ok := set.RulingOf(0, "1:203.0.9.9"); !ok || text != "1:203.0.0.0/16" {
		t.Errorf("got the ruling %q, %t, want the one about the short prefix", text, ok)
	}
	if err := set.SetRulings(0, []Ruling{{Key: "1:eve", Refused: true}}); err == nil || strings.Contains(err.Error(), "eve") {
		t.Errorf("got %v, want an error that does not contain the key", err)
	}
	if _, ok := set.RulingOf(0, "0:eve"); !ok {
		t.Error("an invalid ruling changed the others")
	}
}

// Of overrides by key, prefix and pattern, the first that fits applies.
func TestOverridesInOrder(t *testing.T) {
	limit := func(n int64) []slidegate.Limit { return []slidegate.Limit{slidegate.PerMinute(n)} }
	set := newSet(t, newMemory(t), Options{}, Spec{Form: address, Limits: limit(5), Overrides: []policy.Override{
		{Key: "10.1.*", Pattern: true, Limits: limit(1)},
		{Key: "10.1.1.1", Limits: limit(2)},
		{Key: "10.0.0.0/8", Limits: limit(3)},
		{Key: "10.2.2.2", Limits: limit(4)},
		{Key: "10.3.0.0/16", Limits: limit(4)},
		{Key: "192.0.2.1", Limits: limit(6)},
	}})
	for key, want := range map[string]int{"10.1.1.1": 0, "10.2.2.2": 2, "10.3.0.1": 2, "192.0.2.1": 5, "192.0.2.2": -1} {
		if _, index, _ := set.Route(Part{Key: key}); index != want {
			t.Errorf("%s: got override %d, want %d", key, index, want)
		}
	}
}

// New says which option is wrong, and does not repeat the key.
func TestNewRefusesKeysThatNoRequestHas(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerMinute(5)}
	for option, given := range map[string]Spec{
		"overrides": {Limits: limits, Overrides: []policy.Override{{Key: "team-*", Limits: limits}}},
		"block":     {Limits: limits, Form: address, Block: policy.List{Keys: []string{"secret-name"}}},
		"allow":     {Limits: limits, Form: keyform.Secret, Allow: policy.List{Keys: []string{"secret-name*"}}},
	} {
		_, err := NewOver(newMemory(t), []Spec{given}, Options{})
		var wrong *Error
		if !errors.As(err, &wrong) || wrong.Option != option || strings.Contains(err.Error(), "secret-name") || strings.Contains(err.Error(), "team-") {
			t.Errorf("got %v, want an error about %s without the key", err, option)
		}
	}
}
