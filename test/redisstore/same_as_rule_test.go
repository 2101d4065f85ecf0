package redisstore_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/porttest"
	"github.com/slidegate/slidegate/test/redistest"
)

// withClock opens stores that have a clock of a test's.
func withClock(client rueidis.Client) porttest.Open {
	return func(t testing.TB, now func() rule.Micros) store.Store {
		t.Helper()
		return newStore(t, client, redisstore.Options{Now: now})
	}
}

// The script decides as the rule in Go does.
func TestScriptIsTheRule(t *testing.T) {
	t.Parallel()
	porttest.SameAsRule(t, withClock(redistest.Server(t).Client(t)), porttest.Options{OneKey: true})
}

func TestTraces(t *testing.T) {
	t.Parallel()
	porttest.Traces(t, withClock(redistest.Server(t).Client(t)))
}
