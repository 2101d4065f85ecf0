package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// oneKey is a store that decides several limits together only for one key, or in a group.
type oneKey struct{ store.Store }

func (o oneKey) Traits() store.Traits {
	traits := o.Store.Traits()
	traits.Name, traits.OneKey = "entries", true
	return traits
}

// TestOneKey checks that policies that count one request by different keys are an error before the first request, and
// where that is known only at the request, a mistake that is reported and refuses it.
func TestOneKey(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerMinute(10)}
	policies := []Spec{{Name: "address", Limits: limits}, {Name: "user", Limits: limits}, {Name: "watched", Limits: limits, Shadow: true}}
	set := newSet(t, oneKey{newMemory(t)}, Options{}, policies...)
	all := func(int, int) bool { return true }
	same, other := func(int, int) bool { return true }, func(int, int) bool { return false }
	err := set.CheckTogether(1, all, other)
	if !errors.Is(err, slidegate.ErrUnsupported) || !strings.Contains(err.Error(), `"address" "user"`) || !strings.Contains(err.Error(), "same key") {
		t.Errorf("two keys: got %v, want an error that names both policies and what to do", err)
	}
	for name, err := range map[string]error{
		"one key":                 set.CheckTogether(1, all, same),
		"a group":                 set.CheckTogether(1, all, nil),
		"one policy at a time":    set.CheckTogether(3, func(sample, policy int) bool { return sample == policy }, other),
		"a store of several keys": newSet(t, newMemory(t), Options{}, policies...).CheckTogether(1, all, other),
	} {
		if err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}

	decide := func(group string, keys ...string) (v policy.Decision) {
		r := set.Begin()
		defer r.End()
		r.Group = group
		for i, key := range keys {
			r.Add(Part{Policy: i, Key: key, Cost: 1})
		}
		r.Decide(t.Context(), rule.Take, &v)
		return v
	}
	if v := decide("", "192.0.2.1", "ann"); !errors.Is(v.Err, slidegate.ErrUnsupported) || !v.Refused {
		t.Errorf("two keys of one request: got %+v, want a mistake that is refused", v)
	}
	if v := decide("", "ann", "ann", "shadow"); v.Err != nil || v.Refused {
		t.Errorf("one key, and another in the shadow: got %+v, want it admitted", v)
	}
	if v := decide("group", "192.0.2.1", "ann"); v.Err != nil || v.Refused {
		t.Errorf("two keys in a group: got %+v, want it admitted", v)
	}
}
