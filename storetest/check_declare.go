package storetest

import (
	"errors"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// checkDeclare: a store that remembers the limits of its limiters makes New reject limits without a name that would share
// the counts of others by mistake, and nothing else.
func checkDeclare(t testing.TB, s *suite) {
	p := s.pair(t)
	if _, ok := store.As[store.Declarer](p.store); !ok {
		t.Log("not checked: the store is not a store.Declarer; embed a store.Registry to make it one")
		return
	}
	limiter := func(namespace string, limits ...slidegate.Limit) error {
		_, err := slidegate.New(slidegate.Namespace(p.store, p.namespace+namespace), limits...)
		return err
	}
	named := slidegate.PerMinute(7)
	named.Name = "named"
	renewed := named
	renewed.Quota = 8
	strict := slidegate.PerMinute(100)
	strict.CountRefused = true
	for _, step := range []struct {
		what     string
		err      error
		conflict bool
	}{
		{"the first limit", limiter("", slidegate.PerMinute(100)), false},
		{"an equal limit", limiter("", slidegate.PerMinute(100)), false},
		{"a smaller quota", limiter("", slidegate.PerMinute(5)), true},
		{"a limit that counts refused requests", limiter("", strict), true},
		{"another window", limiter("", slidegate.PerHour(5)), false},
		{"another namespace", limiter("-other", slidegate.PerMinute(5)), false},
		{"a limit with a name", limiter("", named), false},
		{"another quota of the same name", limiter("", renewed), false},
		{"another quota next to a new window", limiter("", slidegate.PerSecond(1), slidegate.PerMinute(50)), true},
		{"that window, with another quota", limiter("", slidegate.PerSecond(2)), false},
	} {
		switch {
		case step.conflict && !errors.Is(step.err, store.ErrConflict):
			p.fatalf("%s: New returned %v, want ErrConflict", step.what, step.err)
		case !step.conflict && step.err != nil:
			p.fatalf("%s: New failed: %v", step.what, step.err)
		}
	}
}
