// Package kvstore_test checks that kvstore decides as the rule does, over an engine in this process.
package kvstore_test

import (
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/porttest"
)

// withClock opens stores with a test's clock.
func withClock(opts kvstore.Options) porttest.Open {
	return func(t testing.TB, now func() rule.Micros) store.Store {
		t.Helper()
		opts.Now = now
		return testkit.Must(kvstore.New(&kvtest.Table{}, opts))(t)
	}
}

// The store runs the rule itself, but on states that were encoded and decoded: its decisions must still equal the rule's.
func TestEntriesMatchTheRule(t *testing.T) {
	for name, opts := range map[string]kvstore.Options{"remembered": {}, "read": {Remember: -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			porttest.SameAsRule(t, withClock(opts), porttest.Options{OneKey: true})
		})
	}
}

func TestTraces(t *testing.T) {
	t.Parallel()
	porttest.Traces(t, withClock(kvstore.Options{}))
}
