// Package kvstore_test checks what kvstore makes of the rule, over an engine in this process.
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

// withClock opens stores that have a clock of a test's.
func withClock(opts kvstore.Options) porttest.Open {
	return func(t testing.TB, now func() rule.Micros) store.Store {
		t.Helper()
		opts.Now = now
		return testkit.Must(kvstore.New(&kvtest.Table{}, opts))(t)
	}
}

// The store runs the rule itself, but what it reads went through bytes: decisions must be those of the rule all the same.
func TestEntriesAreTheRule(t *testing.T) {
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
